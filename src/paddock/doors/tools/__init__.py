"""Tools in Python: functions whose calls cross the gate, and adapters for those who call them."""
