"""Ways of going through a stream: Progressive Module Networks and their controls."""
