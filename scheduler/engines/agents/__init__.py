"""For engines whose workers run where nothing of the scheduler is: what their agents ask for, and what they bring
back."""
