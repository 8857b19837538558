"""The one crossing: decide, ask, carry out, settle. Only from here does an effect get out."""
