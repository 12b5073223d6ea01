"""Tables, plots and pages made from results alone, without torch."""
