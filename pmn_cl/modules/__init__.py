"""The modules of Progressive Module Networks and what they are made of."""
