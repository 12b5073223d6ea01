"""The paper's claims, the rule by which results decide them, and their table."""
