"""Models as block diagrams: `draw` makes one, as DOT, SVG and PNG."""
