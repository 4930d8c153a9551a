"""What a scatter or gather does, cell by cell: `explain` draws it, as SVG and PNG."""
