"""What is wrong with labels, and which videos to label next: `yt8m audit` and `yt8m select`."""
