"""Pictures of every panel, dialog and window, made by running the program."""
