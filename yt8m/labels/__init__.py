"""Which labels are wrong, which videos to label next, what a labelled sample says of others: audit, select, count."""
