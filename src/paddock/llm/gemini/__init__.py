"""Google's `generateContent`, of the Gemini API and of Vertex."""
