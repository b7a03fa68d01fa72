"""Adds a part of a ledger to the totals of its accounts, in batches.

Each batch is one transaction of the ledger's own database: the totals, the position reached, and
the check of the fencing token. So nothing is added twice or left out, wherever this program, its
worker or the server is killed, and a former attempt that wakes up late can't write any more.
"""

import os
import sqlite3
import subprocess
import sys

ENV = os.environ
KEY, TOKEN = ENV["SICHEN_FENCE_KEY"], int(ENV["SICHEN_TOKEN"])
FIRST, END = int(ENV["SICHEN_RANGE_FROM"]), int(ENV["SICHEN_RANGE_TO"])  # END is excluded
BATCH = int(ENV.get("SICHEN_PARAM_BATCH", "100"))

# The statements of the fence kit, as `sichen fence sql --dialect sqlite` shows them.
OPEN = """
INSERT INTO sichen_fence (fence_key, token, upper_bound) VALUES (?, ?, ?)
ON CONFLICT (fence_key) DO UPDATE SET token = excluded.token,
  upper_bound = min(coalesce(upper_bound, excluded.upper_bound),
                    coalesce(excluded.upper_bound, upper_bound))
RETURNING checkpoint
"""
SAVE = "INSERT INTO sichen_fence_save (fence_key, token, checkpoint) VALUES (?, ?, ?)"
ADD = """
INSERT INTO totals (account, amount_minor) VALUES (?, ?)
ON CONFLICT (account) DO UPDATE SET amount_minor = amount_minor + excluded.amount_minor
"""


def report(*words):
    """Tells Sichen; ends the program if the shard is not ours any more (8) or we are to stop (9)."""
    code = subprocess.run(["sichen", "report", *words]).returncode
    if code in (8, 9):
        sys.exit(code)


def main():
    db = sqlite3.connect(ENV["LEDGER_DB"], timeout=60, isolation_level=None)

    # First of all, alone in its transaction: from here on no former attempt can commit, and what it
    # did commit is in the checkpoint that comes back. SICHEN_CHECKPOINT may be older.
    (after,) = db.execute(OPEN, (KEY, TOKEN, END - 1)).fetchall()[0]
    after = FIRST - 1 if after is None else after

    while True:
        rows = db.execute(
            "SELECT id, account, amount_minor FROM ledger WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
            (after, END, BATCH),
        ).fetchall()
        if not rows:
            break
        last = rows[-1][0]
        db.execute("BEGIN IMMEDIATE")
        db.execute(SAVE, (KEY, TOKEN, last))  # refuses a former attempt; nothing of it is kept
        db.executemany(ADD, [(account, amount) for _, account, amount in rows])
        db.execute("COMMIT")
        after = last
        # After the commit, for people: where it is, and how much is done in all.
        done = db.execute(
            "SELECT count(*) FROM ledger WHERE id >= ? AND id <= ?", (FIRST, after)
        ).fetchone()[0]
        report("checkpoint", f"id:{after}", "--done", str(done))

    rows = db.execute(
        "SELECT count(*) FROM ledger WHERE id >= ? AND id < ?", (FIRST, END)
    ).fetchone()[0]
    report("progress", str(rows), "--expected", str(rows))
    report("result", f'{{"rows": {rows}}}')


main()
