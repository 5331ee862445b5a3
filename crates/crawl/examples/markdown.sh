#!/bin/sh
# A module for documents in Markdown, as a program. In the settings:
#   [[module]]
#   name = "markdown"
#   types = ["text/markdown", "text/x-markdown"]
#   command = ["/path/to/markdown.sh"]
#   output = "json"

cat >document # the working directory is this document's alone
printf '{"fact": "headings", "value": %s}\n' "$(grep -c '^# ' document)"
# [text](target), one in a line; targets with quotes or backslashes are no URLs
sed -n 's/.*\](\([^)"\\]*\)).*/{"link": "\1"}/p' document
sed -n 's/^# \([^"\\]*\)$/{"title": "\1"}/p' document | head -n 1
