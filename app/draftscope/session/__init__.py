"""What the window knows: one session with its state machine, the records of the run, and the settings. No widgets."""
