CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT UNIQUE NOT NULL,
    phone TEXT NOT NULL,
    loyalty_member INTEGER NOT NULL DEFAULT 0,
    loyalty_since DATE,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX idx_customers_name ON customers(name);

CREATE TABLE bikes (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL,
    brand TEXT NOT NULL,
    model TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('city', 'road', 'mountain', 'folding', 'cargo', 'ebike')),
    frame_number TEXT UNIQUE NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (customer_id) REFERENCES customers(id)
);
CREATE INDEX idx_bikes_customer_id ON bikes(customer_id);

CREATE TABLE mechanics (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    strengths TEXT NOT NULL,
    weekly_hours INTEGER NOT NULL,
    active INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE services (
    id INTEGER PRIMARY KEY,
    code TEXT UNIQUE NOT NULL,
    name TEXT NOT NULL,
    price REAL NOT NULL,
    minutes INTEGER NOT NULL
);

CREATE TABLE suppliers (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    email TEXT NOT NULL,
    delivery_days INTEGER NOT NULL
);

CREATE TABLE parts (
    id INTEGER PRIMARY KEY,
    sku TEXT UNIQUE NOT NULL,
    name TEXT NOT NULL,
    supplier_id INTEGER NOT NULL,
    price REAL NOT NULL,
    purchase_price REAL NOT NULL,
    stock INTEGER NOT NULL CHECK (stock >= 0),
    min_stock INTEGER NOT NULL,
    target_stock INTEGER NOT NULL,
    pack_size INTEGER NOT NULL DEFAULT 1,
    discontinued INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (supplier_id) REFERENCES suppliers(id)
);
CREATE INDEX idx_parts_supplier_id ON parts(supplier_id);

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    bike_id INTEGER NOT NULL,
    mechanic_id INTEGER,
    status TEXT NOT NULL DEFAULT 'open'
        CHECK (status IN ('open', 'in_progress', 'waiting_parts', 'ready', 'collected', 'cancelled')),
    problem TEXT NOT NULL,
    due_on DATE,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (bike_id) REFERENCES bikes(id),
    FOREIGN KEY (mechanic_id) REFERENCES mechanics(id)
);
CREATE INDEX idx_jobs_bike_id ON jobs(bike_id);
CREATE INDEX idx_jobs_status ON jobs(status);

CREATE TABLE job_services (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    service_id INTEGER NOT NULL,
    price REAL NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (job_id) REFERENCES jobs(id),
    FOREIGN KEY (service_id) REFERENCES services(id)
);
CREATE INDEX idx_job_services_job_id ON job_services(job_id);

CREATE TABLE job_parts (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    part_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_price REAL NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (job_id) REFERENCES jobs(id),
    FOREIGN KEY (part_id) REFERENCES parts(id)
);
CREATE INDEX idx_job_parts_job_id ON job_parts(job_id);

CREATE TABLE quotes (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    labour_total REAL NOT NULL,
    parts_total REAL NOT NULL,
    labour_discount_percent REAL NOT NULL DEFAULT 0,
    parts_discount_percent REAL NOT NULL DEFAULT 0,
    total REAL NOT NULL,
    status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'sent', 'accepted', 'declined')),
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    sent_at DATETIME,
    FOREIGN KEY (job_id) REFERENCES jobs(id)
);
CREATE INDEX idx_quotes_job_id ON quotes(job_id);

CREATE TABLE invoices (
    id INTEGER PRIMARY KEY,
    number TEXT UNIQUE NOT NULL,
    job_id INTEGER NOT NULL,
    customer_id INTEGER NOT NULL,
    total REAL NOT NULL,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid', 'cancelled')),
    issued_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (job_id) REFERENCES jobs(id),
    FOREIGN KEY (customer_id) REFERENCES customers(id)
);
CREATE INDEX idx_invoices_customer_id ON invoices(customer_id);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    invoice_id INTEGER NOT NULL,
    amount REAL NOT NULL CHECK (amount > 0),
    method TEXT NOT NULL CHECK (method IN ('card', 'cash', 'transfer')),
    paid_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (invoice_id) REFERENCES invoices(id)
);
CREATE INDEX idx_payments_invoice_id ON payments(invoice_id);

CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('info', 'call_first', 'reminder', 'complaint')),
    text TEXT NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (job_id) REFERENCES jobs(id)
);
CREATE INDEX idx_notes_job_id ON notes(job_id);

CREATE TABLE supplier_orders (
    id INTEGER PRIMARY KEY,
    supplier_id INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'placed', 'received', 'cancelled')),
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    placed_at DATETIME,
    received_at DATETIME,
    FOREIGN KEY (supplier_id) REFERENCES suppliers(id)
);
CREATE INDEX idx_supplier_orders_supplier_id ON supplier_orders(supplier_id);

CREATE TABLE supplier_order_lines (
    id INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL,
    part_id INTEGER NOT NULL,
    packs INTEGER NOT NULL CHECK (packs > 0),
    units INTEGER NOT NULL,
    UNIQUE (order_id, part_id),
    FOREIGN KEY (order_id) REFERENCES supplier_orders(id),
    FOREIGN KEY (part_id) REFERENCES parts(id)
);
