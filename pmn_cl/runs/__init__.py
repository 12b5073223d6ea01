"""One run and many: plan, execute, record, resume; and what is done with a run afterwards."""
