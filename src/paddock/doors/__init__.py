"""The ways in: what turns a caller's or an agent's wish into something the fence carries out."""
