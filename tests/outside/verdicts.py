"""What a test found, as lines that ./test counts: `ok ...`, `not ok ...`, `not run: ...`."""

import os
import sys

# A difference is shown by its first examples; the count says the rest.
MAX_EXAMPLES = 10


class Verdicts:
    def __init__(self):
        self.failed = 0

    def check(self, good, what, examples=()):
        """One check. `examples` are shown when it fails."""
        print(f"{'ok' if good else 'not ok'} {what}", flush=True)
        if good:
            return
        self.failed += 1
        examples = list(examples)
        for example in examples[:MAX_EXAMPLES]:
            print(f"    {example}")
        if len(examples) > MAX_EXAMPLES:
            print(f"    ... and {len(examples) - MAX_EXAMPLES} more")
        sys.stdout.flush()

    def none_of(self, wrong, what):
        """A check that holds if `wrong` is empty."""
        wrong = list(wrong)
        count = f" ({len(wrong)} times not)" if wrong else ""
        self.check(not wrong, what + count, wrong)

    def not_run(self, what):
        """A tool cannot be had: said, and a failure where CI promises that all tools are there."""
        if os.environ.get("CI"):
            self.check(False, f"not run: {what}")
        else:
            print(f"not run: {what}", flush=True)

    def note(self, text):
        print(f"    {text}", flush=True)

    def exit(self):
        sys.exit(1 if self.failed else 0)
