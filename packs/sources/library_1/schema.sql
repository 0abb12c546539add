CREATE TABLE branches (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    address TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed'))
);

CREATE TABLE loan_rules (
    id INTEGER PRIMARY KEY,
    category TEXT UNIQUE NOT NULL,
    max_loans INTEGER NOT NULL,
    loan_weeks INTEGER,
    max_renewals INTEGER NOT NULL,
    fine_per_day REAL NOT NULL,
    fine_limit REAL NOT NULL
);

CREATE TABLE readers (
    id INTEGER PRIMARY KEY,
    card TEXT UNIQUE NOT NULL,
    name TEXT NOT NULL,
    category TEXT NOT NULL CHECK (category IN ('adult', 'student', 'junior', 'school')),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'blocked')),
    email TEXT,
    phone TEXT,
    notes TEXT,
    joined_on DATE NOT NULL
);
CREATE INDEX idx_readers_name ON readers(name);

CREATE TABLE titles (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    author TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('book', 'audiobook', 'dvd', 'game')),
    year INTEGER NOT NULL
);
CREATE INDEX idx_titles_title ON titles(title);

CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    barcode TEXT UNIQUE NOT NULL,
    title_id INTEGER NOT NULL,
    branch_id INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'available'
        CHECK (status IN ('available', 'on_loan', 'hold_shelf', 'in_transit', 'repair', 'lost')),
    price REAL NOT NULL,
    FOREIGN KEY (title_id) REFERENCES titles(id),
    FOREIGN KEY (branch_id) REFERENCES branches(id)
);
CREATE INDEX idx_copies_title_id ON copies(title_id);

CREATE TABLE loans (
    id INTEGER PRIMARY KEY,
    copy_id INTEGER NOT NULL,
    reader_id INTEGER NOT NULL,
    loaned_on DATE NOT NULL,
    due_on DATE NOT NULL,
    renewals INTEGER NOT NULL DEFAULT 0,
    ended_on DATE,
    ended_as TEXT CHECK (ended_as IN ('returned', 'lost')),
    FOREIGN KEY (copy_id) REFERENCES copies(id),
    FOREIGN KEY (reader_id) REFERENCES readers(id)
);
CREATE INDEX idx_loans_reader_id ON loans(reader_id);
CREATE INDEX idx_loans_copy_id ON loans(copy_id);

CREATE TABLE holds (
    id INTEGER PRIMARY KEY,
    title_id INTEGER NOT NULL,
    reader_id INTEGER NOT NULL,
    branch_id INTEGER NOT NULL,
    copy_id INTEGER,
    status TEXT NOT NULL DEFAULT 'waiting'
        CHECK (status IN ('waiting', 'in_transit', 'ready', 'collected', 'cancelled')),
    placed_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (title_id) REFERENCES titles(id),
    FOREIGN KEY (reader_id) REFERENCES readers(id),
    FOREIGN KEY (branch_id) REFERENCES branches(id),
    FOREIGN KEY (copy_id) REFERENCES copies(id)
);
CREATE INDEX idx_holds_title_id ON holds(title_id);
CREATE INDEX idx_holds_reader_id ON holds(reader_id);

CREATE TABLE transfers (
    id INTEGER PRIMARY KEY,
    copy_id INTEGER NOT NULL,
    from_branch_id INTEGER NOT NULL,
    to_branch_id INTEGER NOT NULL,
    hold_id INTEGER,
    status TEXT NOT NULL DEFAULT 'sent' CHECK (status IN ('sent', 'arrived')),
    sent_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    arrived_at DATETIME,
    FOREIGN KEY (copy_id) REFERENCES copies(id),
    FOREIGN KEY (from_branch_id) REFERENCES branches(id),
    FOREIGN KEY (to_branch_id) REFERENCES branches(id),
    FOREIGN KEY (hold_id) REFERENCES holds(id)
);
CREATE INDEX idx_transfers_copy_id ON transfers(copy_id);

CREATE TABLE fines (
    id INTEGER PRIMARY KEY,
    reader_id INTEGER NOT NULL,
    loan_id INTEGER,
    kind TEXT NOT NULL CHECK (kind IN ('overdue', 'lost', 'damage')),
    amount REAL NOT NULL CHECK (amount > 0),
    reason TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid', 'waived')),
    waived_because TEXT,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (reader_id) REFERENCES readers(id),
    FOREIGN KEY (loan_id) REFERENCES loans(id)
);
CREATE INDEX idx_fines_reader_id ON fines(reader_id);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    fine_id INTEGER NOT NULL,
    amount REAL NOT NULL CHECK (amount > 0),
    method TEXT NOT NULL CHECK (method IN ('card', 'cash')),
    paid_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (fine_id) REFERENCES fines(id)
);
CREATE INDEX idx_payments_fine_id ON payments(fine_id);
