"""The checks of `mdf_scatter.checks`, one concern a module."""
