"""What Progressive Module Networks are compared with."""
