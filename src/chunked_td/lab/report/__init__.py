"""From numbers to figures for print, interactive plots and the report page."""
