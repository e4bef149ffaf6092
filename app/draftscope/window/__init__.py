"""The window: frame, docks, actions, dialogs and the clock. It builds the panels and shows what the session says."""
