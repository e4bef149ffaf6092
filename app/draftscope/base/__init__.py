"""What every room stands on: paths, units, colours, start-up checks. Imports nothing of Draftscope's, and no Qt."""
