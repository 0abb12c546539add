-- Three loyalty members, two Femkes and two Sannes: a name alone does not always settle who is meant.
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (1, 'Femke Jansen', 'femke.jansen@example.com', '+31 6 5550 0101', 0, NULL, datetime('now', '-420 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (2, 'Tomas Berg', 'tomas.berg@example.com', '+31 6 5550 0102', 0, NULL, datetime('now', '-390 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (3, 'Sanne de Vries', 'sanne.devries@example.com', '+31 6 5550 0103', 1, date('now', '-60 days'), datetime('now', '-350 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (4, 'Ilse Bakker', 'ilse.bakker@example.com', '+31 6 5550 0104', 0, NULL, datetime('now', '-310 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (5, 'Piet Mulder', 'piet.mulder@example.com', '+31 6 5550 0105', 0, NULL, datetime('now', '-300 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (6, 'Sanne Visser', 'sanne.visser@example.com', '+31 6 5550 0106', 0, NULL, datetime('now', '-280 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (7, 'Karim Aziz', 'karim.aziz@example.com', '+31 6 5550 0107', 1, date('now', '-100 days'), datetime('now', '-275 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (8, 'Lotte Smit', 'lotte.smit@example.com', '+31 6 5550 0108', 0, NULL, datetime('now', '-260 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (9, 'Oskar Lindqvist', 'oskar.lindqvist@example.com', '+31 6 5550 0109', 1, date('now', '-4 days'), datetime('now', '-140 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (10, 'Siobhan O''Neill', 'siobhan.oneill@example.com', '+31 6 5550 0110', 0, NULL, datetime('now', '-30 days'));
INSERT INTO customers (id, name, email, phone, loyalty_member, loyalty_since, created_at) VALUES (11, 'Femke de Jong', 'femke.dejong@example.com', '+31 6 5550 0111', 0, NULL, datetime('now', '-120 days'));

-- Every customer has at least one bike; some have two, so that the right one must be picked.
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (1, 1, 'Gazelle', 'Orange C7', 'city', 'GZ-44810', datetime('now', '-420 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (2, 2, 'Gazelle', 'Chamonix', 'city', 'GZ-51277', datetime('now', '-390 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (3, 2, 'Canyon', 'Endurace 7', 'road', 'CN-70233', datetime('now', '-200 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (4, 3, 'Trek', 'FX 3 Disc', 'city', 'TR-20918', datetime('now', '-350 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (5, 4, 'Koga', 'E-Nova Evo', 'ebike', 'KG-88140', datetime('now', '-310 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (6, 4, 'Batavus', 'Quip', 'city', 'BT-31002', datetime('now', '-250 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (7, 5, 'Batavus', 'Dinsdag', 'city', 'BT-29655', datetime('now', '-300 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (8, 6, 'Cube', 'Nature', 'city', 'CB-10476', datetime('now', '-280 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (9, 7, 'Urban Arrow', 'Family', 'ebike', 'UA-60031', datetime('now', '-275 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (10, 8, 'Stromer', 'ST2', 'ebike', 'ST-15190', datetime('now', '-260 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (11, 9, 'Bianchi', 'Via Nirone', 'road', 'BI-80544', datetime('now', '-140 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (12, 10, 'Brompton', 'C Line', 'folding', 'BR-90721', datetime('now', '-30 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (13, 11, 'Sparta', 'c-Grid', 'ebike', 'SP-33418', datetime('now', '-120 days'));
INSERT INTO bikes (id, customer_id, brand, model, kind, frame_number, created_at) VALUES (14, 3, 'Brompton', 'A Line', 'folding', 'BR-11863', datetime('now', '-90 days'));

-- Three mechanics who work here and one who has left.
INSERT INTO mechanics (id, name, strengths, weekly_hours, active) VALUES (1, 'Ruben', 'Drivetrains, electrics', 38, 1);
INSERT INTO mechanics (id, name, strengths, weekly_hours, active) VALUES (2, 'Noor', 'Hydraulic brakes, wheel building', 32, 1);
INSERT INTO mechanics (id, name, strengths, weekly_hours, active) VALUES (3, 'Joost', 'Tune-ups, punctures, accessories', 24, 1);
INSERT INTO mechanics (id, name, strengths, weekly_hours, active) VALUES (4, 'Mats', 'Frames, electrics', 0, 0);

-- The labour price list.
INSERT INTO services (id, code, name, price, minutes) VALUES (1, 'TUNE-S', 'Small tune-up', 39.00, 45);
INSERT INTO services (id, code, name, price, minutes) VALUES (2, 'TUNE-L', 'Full tune-up', 79.00, 100);
INSERT INTO services (id, code, name, price, minutes) VALUES (3, 'BRAKE', 'Brake adjustment, front and rear', 24.00, 30);
INSERT INTO services (id, code, name, price, minutes) VALUES (4, 'BLEED', 'Hydraulic brake bleed, per brake', 32.50, 40);
INSERT INTO services (id, code, name, price, minutes) VALUES (5, 'CHAIN', 'Chain and cassette fitting', 28.00, 30);
INSERT INTO services (id, code, name, price, minutes) VALUES (6, 'PUNCT', 'Puncture repair', 14.50, 20);
INSERT INTO services (id, code, name, price, minutes) VALUES (7, 'WHEEL', 'Wheel truing, per wheel', 22.00, 30);
INSERT INTO services (id, code, name, price, minutes) VALUES (8, 'EB-DIAG', 'E-bike diagnosis with motor read-out', 49.00, 60);
INSERT INTO services (id, code, name, price, minutes) VALUES (9, 'EB-FW', 'E-bike firmware update', 25.00, 25);
INSERT INTO services (id, code, name, price, minutes) VALUES (10, 'FIT', 'Accessory fitting', 12.00, 15);

-- Three suppliers with their usual delivery times.
INSERT INTO suppliers (id, name, email, delivery_days) VALUES (1, 'Velo Grossist', 'orders@velogrossist.example', 2);
INSERT INTO suppliers (id, name, email, delivery_days) VALUES (2, 'Noordzee Parts', 'desk@noordzeeparts.example', 3);
INSERT INTO suppliers (id, name, email, delivery_days) VALUES (3, 'Drivetrain Direct', 'sales@drivetraindirect.example', 5);

-- Parts in stock; several are at or below their minimum, one of them discontinued and one already on order.
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (1, 'CH-X9', 'KMC X9 chain, 9-speed', 3, 24.95, 14.20, 8, 4, 12, 4, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (2, 'CH-X8', 'KMC X8 chain, 8-speed', 3, 19.95, 11.00, 6, 4, 12, 4, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (3, 'CS-9', 'Cassette, 9-speed, 11-32', 3, 34.50, 21.00, 3, 2, 6, 1, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (4, 'BP-DISC', 'Disc brake pads, pair', 1, 16.90, 8.10, 2, 5, 20, 10, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (5, 'BP-RIM', 'Rim brake shoes, pair', 1, 9.50, 4.20, 4, 4, 12, 5, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (6, 'TUBE-28', 'Inner tube, 28 inch', 1, 6.95, 2.60, 31, 20, 60, 20, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (7, 'TYRE-28', 'Puncture-proof tyre, 28 inch', 1, 32.90, 18.40, 0, 2, 6, 1, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (8, 'CABLE', 'Brake cable set', 1, 7.50, 2.90, 3, 6, 24, 12, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (9, 'LIGHT-D', 'Dynamo front light', 1, 39.90, 23.00, 1, 2, 5, 1, 1);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (10, 'SENS-SP', 'Speed sensor for e-bikes', 2, 38.50, 22.00, 3, 2, 5, 1, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (11, 'BAT-FUSE', 'Battery fuse, 30 A', 2, 8.90, 3.10, 1, 3, 10, 5, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (12, 'DISPLAY', 'E-bike display', 2, 119.00, 78.00, 1, 1, 2, 1, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (13, 'SADDLE', 'Comfort saddle', 1, 44.90, 25.50, 4, 2, 6, 2, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (14, 'PEDAL', 'Pedals, pair', 1, 21.50, 11.00, 5, 3, 8, 2, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (15, 'GRIP', 'Ergonomic grips, pair', 2, 18.90, 9.40, 6, 3, 8, 1, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (16, 'FLUID', 'Mineral oil for brakes, 100 ml', 3, 11.50, 5.60, 7, 3, 10, 1, 0);
INSERT INTO parts (id, sku, name, supplier_id, price, purchase_price, stock, min_stock, target_stock, pack_size, discontinued) VALUES (17, 'RACK', 'Rear rack', 1, 35.90, 19.50, 3, 3, 7, 4, 0);

-- Repair jobs in every stage, from collected last year to brought in today.
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (1, 1, 3, 'collected', 'Yearly check before the holidays', NULL, datetime('now', '-200 days'), datetime('now', '-196 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (2, 1, 1, 'collected', 'Full service, flat rear tyre, chain worn', NULL, datetime('now', '-45 days'), datetime('now', '-40 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (3, 1, 3, 'collected', 'Brakes squeal and pull to the left', NULL, datetime('now', '-15 days'), datetime('now', '-12 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (4, 1, 2, 'collected', 'Rear wheel wobbles again, under warranty', NULL, datetime('now', '-32 days'), datetime('now', '-30 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (5, 2, 3, 'open', 'Chain slips under load', date('now', '+2 days'), datetime('now', '-1 days'), datetime('now', '-1 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (6, 3, NULL, 'open', 'Front wheel out of true', date('now', '+6 days'), datetime('now', '-1 days'), datetime('now', '-1 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (7, 4, 2, 'in_progress', 'Full tune-up, brakes weak, chain worn', date('now', '+3 days'), datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (8, 8, 3, 'in_progress', 'Small tune-up, saddle torn', date('now', '+2 days'), datetime('now', '-3 days'), datetime('now', '-1 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (9, 7, 1, 'waiting_parts', 'Rear tyre worn through, needs a puncture-proof one', date('now', '+5 days'), datetime('now', '-4 days'), datetime('now', '-2 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (10, 9, 1, 'collected', 'Motor stutters, wrong speed on the display', NULL, datetime('now', '-240 days'), datetime('now', '-235 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (11, 10, 4, 'collected', 'Firmware update and a softer saddle', NULL, datetime('now', '-150 days'), datetime('now', '-147 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (12, 13, 3, 'collected', 'Flat front tyre', NULL, datetime('now', '-9 days'), datetime('now', '-8 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (13, 11, 1, 'ready', 'Gears jump, cassette worn', date('now', '+0 days'), datetime('now', '-6 days'), datetime('now', '-1 days'));
INSERT INTO jobs (id, bike_id, mechanic_id, status, problem, due_on, created_at, updated_at) VALUES (14, 12, NULL, 'open', 'Squeaks when folding, please look it over', date('now', '+4 days'), datetime('now', '-2 hours'), datetime('now', '-2 hours'));

-- Labour lines at the list price of the day.
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (1, 1, 1, 39.00, datetime('now', '-200 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (2, 1, 3, 24.00, datetime('now', '-200 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (3, 2, 2, 79.00, datetime('now', '-45 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (4, 2, 6, 14.50, datetime('now', '-45 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (5, 3, 3, 24.00, datetime('now', '-15 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (6, 4, 7, 22.00, datetime('now', '-32 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (7, 5, 5, 28.00, datetime('now', '-1 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (8, 6, 7, 22.00, datetime('now', '-1 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (9, 7, 2, 79.00, datetime('now', '-2 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (10, 7, 3, 24.00, datetime('now', '-2 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (11, 8, 1, 39.00, datetime('now', '-3 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (12, 8, 10, 12.00, datetime('now', '-3 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (13, 9, 6, 14.50, datetime('now', '-4 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (14, 10, 8, 49.00, datetime('now', '-240 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (15, 11, 9, 25.00, datetime('now', '-150 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (16, 11, 10, 12.00, datetime('now', '-150 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (17, 12, 6, 14.50, datetime('now', '-9 days'));
INSERT INTO job_services (id, job_id, service_id, price, created_at) VALUES (18, 13, 5, 28.00, datetime('now', '-6 days'));

-- Part lines; their pieces have left the stock.
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (1, 2, 1, 1, 24.95, datetime('now', '-45 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (2, 3, 5, 2, 9.50, datetime('now', '-15 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (3, 3, 8, 1, 7.50, datetime('now', '-15 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (4, 7, 4, 2, 16.90, datetime('now', '-2 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (5, 7, 1, 1, 24.95, datetime('now', '-2 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (6, 8, 13, 1, 44.90, datetime('now', '-3 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (7, 10, 10, 1, 38.50, datetime('now', '-240 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (8, 11, 13, 1, 44.90, datetime('now', '-150 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (9, 12, 6, 1, 6.95, datetime('now', '-9 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (10, 13, 3, 1, 34.50, datetime('now', '-6 days'));
INSERT INTO job_parts (id, job_id, part_id, quantity, unit_price, created_at) VALUES (11, 13, 1, 1, 24.95, datetime('now', '-6 days'));

-- Quotes add up with the lines of their jobs. Nothing here tells the discount of loyalty members: those who have quotes joined later.
INSERT INTO quotes (id, job_id, labour_total, parts_total, labour_discount_percent, parts_discount_percent, total, status, created_at, sent_at) VALUES (1, 2, 93.50, 24.95, 0, 0, 118.45, 'accepted', datetime('now', '-45 days'), datetime('now', '-45 days'));
INSERT INTO quotes (id, job_id, labour_total, parts_total, labour_discount_percent, parts_discount_percent, total, status, created_at, sent_at) VALUES (2, 10, 49.00, 38.50, 0, 0, 87.50, 'accepted', datetime('now', '-240 days'), datetime('now', '-239 days'));
INSERT INTO quotes (id, job_id, labour_total, parts_total, labour_discount_percent, parts_discount_percent, total, status, created_at, sent_at) VALUES (3, 11, 37.00, 44.90, 10, 10, 73.71, 'accepted', datetime('now', '-150 days'), datetime('now', '-150 days'));
INSERT INTO quotes (id, job_id, labour_total, parts_total, labour_discount_percent, parts_discount_percent, total, status, created_at, sent_at) VALUES (4, 13, 28.00, 59.45, 0, 0, 87.45, 'accepted', datetime('now', '-6 days'), datetime('now', '-6 days'));
INSERT INTO quotes (id, job_id, labour_total, parts_total, labour_discount_percent, parts_discount_percent, total, status, created_at, sent_at) VALUES (5, 8, 51.00, 44.90, 0, 0, 95.90, 'draft', datetime('now', '-2 days'), NULL);

-- Open, paid and cancelled invoices; totals equal the quote or the lines of the job.
INSERT INTO invoices (id, number, job_id, customer_id, total, status, issued_at) VALUES (1, 'R-1001', 10, 7, 87.50, 'paid', datetime('now', '-235 days'));
INSERT INTO invoices (id, number, job_id, customer_id, total, status, issued_at) VALUES (2, 'R-1002', 1, 1, 63.00, 'paid', datetime('now', '-196 days'));
INSERT INTO invoices (id, number, job_id, customer_id, total, status, issued_at) VALUES (3, 'R-1003', 11, 8, 73.71, 'paid', datetime('now', '-147 days'));
INSERT INTO invoices (id, number, job_id, customer_id, total, status, issued_at) VALUES (4, 'R-1004', 2, 1, 118.45, 'open', datetime('now', '-40 days'));
INSERT INTO invoices (id, number, job_id, customer_id, total, status, issued_at) VALUES (5, 'R-1005', 4, 1, 22.00, 'cancelled', datetime('now', '-30 days'));
INSERT INTO invoices (id, number, job_id, customer_id, total, status, issued_at) VALUES (6, 'R-1006', 3, 1, 50.50, 'open', datetime('now', '-12 days'));
INSERT INTO invoices (id, number, job_id, customer_id, total, status, issued_at) VALUES (7, 'R-1007', 12, 11, 21.45, 'open', datetime('now', '-8 days'));

-- Payments, some of them partial.
INSERT INTO payments (id, invoice_id, amount, method, paid_at) VALUES (1, 1, 87.50, 'card', datetime('now', '-235 days'));
INSERT INTO payments (id, invoice_id, amount, method, paid_at) VALUES (2, 2, 63.00, 'card', datetime('now', '-196 days'));
INSERT INTO payments (id, invoice_id, amount, method, paid_at) VALUES (3, 3, 40.00, 'cash', datetime('now', '-147 days'));
INSERT INTO payments (id, invoice_id, amount, method, paid_at) VALUES (4, 3, 33.71, 'transfer', datetime('now', '-140 days'));
INSERT INTO payments (id, invoice_id, amount, method, paid_at) VALUES (5, 4, 45.00, 'cash', datetime('now', '-40 days'));

-- What the front desk wrote down on jobs.
INSERT INTO notes (id, job_id, kind, text, created_at) VALUES (1, 4, 'complaint', 'Customer says the wheel was trued by us last month. Agreed to do it free of charge.', datetime('now', '-32 days'));
INSERT INTO notes (id, job_id, kind, text, created_at) VALUES (2, 7, 'info', 'Disc pads were down to the metal, customer has been told.', datetime('now', '-1 days'));
INSERT INTO notes (id, job_id, kind, text, created_at) VALUES (3, 8, 'info', 'Old saddle to be kept for the customer.', datetime('now', '-2 days'));
INSERT INTO notes (id, job_id, kind, text, created_at) VALUES (4, 9, 'reminder', 'Ask Velo Grossist again about the puncture-proof tyres.', datetime('now', '-2 days'));
INSERT INTO notes (id, job_id, kind, text, created_at) VALUES (5, 13, 'info', 'Will be picked up by his daughter.', datetime('now', '-1 days'));

-- Orders to suppliers in all stages.
INSERT INTO supplier_orders (id, supplier_id, status, created_at, placed_at, received_at) VALUES (1, 1, 'received', datetime('now', '-80 days'), datetime('now', '-80 days'), datetime('now', '-77 days'));
INSERT INTO supplier_orders (id, supplier_id, status, created_at, placed_at, received_at) VALUES (2, 3, 'received', datetime('now', '-50 days'), datetime('now', '-49 days'), datetime('now', '-44 days'));
INSERT INTO supplier_orders (id, supplier_id, status, created_at, placed_at, received_at) VALUES (3, 1, 'cancelled', datetime('now', '-20 days'), datetime('now', '-20 days'), NULL);
INSERT INTO supplier_orders (id, supplier_id, status, created_at, placed_at, received_at) VALUES (4, 1, 'placed', datetime('now', '-1 days'), datetime('now', '-1 days'), NULL);
INSERT INTO supplier_orders (id, supplier_id, status, created_at, placed_at, received_at) VALUES (5, 2, 'draft', datetime('now', '-1 days'), NULL, NULL);

-- Whole packs per part and the pieces they hold.
INSERT INTO supplier_order_lines (id, order_id, part_id, packs, units) VALUES (1, 1, 7, 4, 4);
INSERT INTO supplier_order_lines (id, order_id, part_id, packs, units) VALUES (2, 1, 6, 2, 40);
INSERT INTO supplier_order_lines (id, order_id, part_id, packs, units) VALUES (3, 2, 1, 2, 8);
INSERT INTO supplier_order_lines (id, order_id, part_id, packs, units) VALUES (4, 2, 3, 3, 3);
INSERT INTO supplier_order_lines (id, order_id, part_id, packs, units) VALUES (5, 3, 5, 2, 10);
INSERT INTO supplier_order_lines (id, order_id, part_id, packs, units) VALUES (6, 4, 8, 2, 24);
INSERT INTO supplier_order_lines (id, order_id, part_id, packs, units) VALUES (7, 5, 11, 2, 10);
