"""What one hub process does: live contexts, appends, dispatch of runs, rows, notices."""
