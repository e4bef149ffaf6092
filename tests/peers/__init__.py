"""Other engines, built from the sources that ours is built from, to be measured against."""
