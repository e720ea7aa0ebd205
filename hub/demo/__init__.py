"""The demo agent: it analyses logs, tables and texts step by step and answers questions about them, without a model.

From the outside in: `agent` handles messages (`intent` says what one wants, `source` fetches the input, `work` does one
analysis in a context, `cache` keeps tables for follow-ups). `analysis` has the plan and the report, `findings` its steps.
Reading: `encoding`, `formats` and `parse`, with a reader for each format (`lines_access`, `lines_log`, `delimited`, `named`,
`text`) that fills a `table` through `builder` and `columns`. Questions: `grammar` and `clauses` make a query of a text, `names`
knows what columns are called, `answers` and `reckoning` work it out, `hints` say what can be asked. `render` makes Markdown.
"""
