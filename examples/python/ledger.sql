-- A ledger of 2,000 entries over 50 accounts, and where its totals go.
CREATE TABLE ledger (
  id           INTEGER PRIMARY KEY,
  account      TEXT NOT NULL,
  amount_minor INTEGER NOT NULL
);
CREATE TABLE totals (account TEXT PRIMARY KEY, amount_minor INTEGER NOT NULL);
WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 2000)
INSERT INTO ledger SELECT id, 'account-' || (id * 7 % 50), (id * 7919 % 20001) - 10000 FROM n;
