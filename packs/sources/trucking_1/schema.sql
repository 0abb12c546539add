CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    contact TEXT NOT NULL,
    phone TEXT NOT NULL,
    notes TEXT
);

CREATE TABLE zones (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    price_per_pallet REAL NOT NULL,
    minimum_charge REAL NOT NULL
);

CREATE TABLE surcharges (
    id INTEGER PRIMARY KEY,
    cooling TEXT UNIQUE NOT NULL,
    percent REAL NOT NULL
);

CREATE TABLE places (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    zone_id INTEGER NOT NULL,
    FOREIGN KEY (zone_id) REFERENCES zones(id)
);

CREATE TABLE routes (
    id INTEGER PRIMARY KEY,
    code TEXT UNIQUE NOT NULL,
    name TEXT NOT NULL
);

CREATE TABLE route_stops (
    id INTEGER PRIMARY KEY,
    route_id INTEGER NOT NULL,
    place_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    UNIQUE (route_id, place_id),
    FOREIGN KEY (route_id) REFERENCES routes(id),
    FOREIGN KEY (place_id) REFERENCES places(id)
);

CREATE TABLE vehicles (
    id INTEGER PRIMARY KEY,
    plate TEXT UNIQUE NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('curtain', 'box', 'reefer')),
    pallet_spaces INTEGER NOT NULL,
    max_kg INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'ready' CHECK (status IN ('ready', 'workshop'))
);

CREATE TABLE drivers (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    adr_certificate INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'on_duty' CHECK (status IN ('on_duty', 'off'))
);

CREATE TABLE partners (
    id INTEGER PRIMARY KEY,
    name TEXT UNIQUE NOT NULL,
    cooled INTEGER NOT NULL DEFAULT 0,
    price_per_pallet REAL NOT NULL,
    active INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE tours (
    id INTEGER PRIMARY KEY,
    code TEXT UNIQUE NOT NULL,
    route_id INTEGER NOT NULL,
    vehicle_id INTEGER NOT NULL,
    driver_id INTEGER NOT NULL,
    departs_on DATE NOT NULL,
    status TEXT NOT NULL DEFAULT 'planned' CHECK (status IN ('planned', 'departed', 'completed', 'cancelled')),
    FOREIGN KEY (route_id) REFERENCES routes(id),
    FOREIGN KEY (vehicle_id) REFERENCES vehicles(id),
    FOREIGN KEY (driver_id) REFERENCES drivers(id)
);
CREATE INDEX idx_tours_status ON tours(status);

CREATE TABLE consignments (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL,
    goods TEXT NOT NULL,
    place_id INTEGER NOT NULL,
    pallets INTEGER NOT NULL CHECK (pallets > 0),
    kg INTEGER NOT NULL CHECK (kg > 0),
    cooling TEXT NOT NULL DEFAULT 'none' CHECK (cooling IN ('none', 'chilled', 'frozen')),
    adr_class TEXT,
    deliver_by DATE NOT NULL,
    status TEXT NOT NULL DEFAULT 'open'
        CHECK (status IN ('open', 'planned', 'on_the_road', 'delivered', 'subcontracted', 'cancelled')),
    tour_id INTEGER,
    partner_id INTEGER,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (customer_id) REFERENCES customers(id),
    FOREIGN KEY (place_id) REFERENCES places(id),
    FOREIGN KEY (tour_id) REFERENCES tours(id),
    FOREIGN KEY (partner_id) REFERENCES partners(id)
);
CREATE INDEX idx_consignments_customer_id ON consignments(customer_id);
CREATE INDEX idx_consignments_tour_id ON consignments(tour_id);

CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    consignment_id INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('driver', 'office', 'call_customer')),
    text TEXT NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (consignment_id) REFERENCES consignments(id)
);
CREATE INDEX idx_notes_consignment_id ON notes(consignment_id);

CREATE TABLE charges (
    id INTEGER PRIMARY KEY,
    consignment_id INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('freight', 'waiting', 'extra')),
    amount REAL NOT NULL CHECK (amount > 0),
    text TEXT NOT NULL,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (consignment_id) REFERENCES consignments(id)
);
CREATE INDEX idx_charges_consignment_id ON charges(consignment_id);
