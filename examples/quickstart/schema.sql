-- The bank: what the business asks for, and what the workers make of it.

CREATE TABLE transfers (
    id           bigint PRIMARY KEY, -- in the order in which they were asked for
    from_account text   NOT NULL,
    to_account   text   NOT NULL CHECK (to_account <> from_account),
    amount       bigint NOT NULL CHECK (amount > 0)
);

-- One entry for each account that a transfer touches. No key, no constraint and no lock of this table keeps its entries
-- single or in order: only the queue does. If it failed, the proof would find the traces here.
CREATE TABLE ledger (
    id          bigint      GENERATED ALWAYS AS IDENTITY, -- the order in which entries were written
    account     text        NOT NULL,
    seq         bigint      NOT NULL, -- the account's last seq, plus one
    transfer_id bigint      NOT NULL,
    amount      bigint      NOT NULL,
    balance     bigint      NOT NULL, -- the account's last balance, plus amount
    attempt     integer     NOT NULL, -- of the job: 2 if a worker had died with it
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON ledger (account, seq);

-- What the ledger should say.
CREATE VIEW expected AS
    SELECT from_account AS account, id AS transfer_id, -amount AS amount FROM transfers
    UNION ALL
    SELECT to_account, id, amount FROM transfers;
