"""What a strategy is and what it promises; strategies themselves are in other packages."""
