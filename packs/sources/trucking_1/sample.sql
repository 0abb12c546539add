-- Names that begin alike: two Larkspurs and two Fennimores.
INSERT INTO customers (id, name, contact, phone, notes) VALUES (1, 'Larkspur Ceramics', 'Ottilie Marsh', '01632 960 311', NULL);
INSERT INTO customers (id, name, contact, phone, notes) VALUES (2, 'Fennimore Foods', 'Ben Achterberg', '01632 960 312', 'Billed once a month.');
INSERT INTO customers (id, name, contact, phone, notes) VALUES (3, 'Hollis Dairy', 'Meg Hollis', '01632 960 313', 'Has a say in who drives its goods if we cannot; the desk lead knows.');
INSERT INTO customers (id, name, contact, phone, notes) VALUES (4, 'Larkspur Candles', 'Theo Larkspur', '01632 960 314', NULL);
INSERT INTO customers (id, name, contact, phone, notes) VALUES (5, 'Marlow Pharmacy Supply', 'Dr Irena Voss', '01632 960 315', 'Temperature log with every delivery.');
INSERT INTO customers (id, name, contact, phone, notes) VALUES (6, 'Brook Farm', 'Sal Whitaker', '01632 960 316', 'Loads before six in the morning.');
INSERT INTO customers (id, name, contact, phone, notes) VALUES (7, 'Fennimore Farm Feeds', 'Gwen Tully', '01632 960 317', NULL);
INSERT INTO customers (id, name, contact, phone, notes) VALUES (8, 'Corrigan Paints', 'Piers Corrigan', '01632 960 318', 'Some paints are dangerous goods, the water-based ones are not.');
INSERT INTO customers (id, name, contact, phone, notes) VALUES (9, 'Volta Garden Tools', 'Lin Zhao', '01632 960 319', NULL);
INSERT INTO customers (id, name, contact, phone, notes) VALUES (10, 'Wexcombe Print', 'Arno Pelt', '01632 960 320', 'Dock 2 only.');

-- The rate card: three zones.
INSERT INTO zones (id, name, price_per_pallet, minimum_charge) VALUES (1, 'near', 24.00, 60.00);
INSERT INTO zones (id, name, price_per_pallet, minimum_charge) VALUES (2, 'region', 31.50, 80.00);
INSERT INTO zones (id, name, price_per_pallet, minimum_charge) VALUES (3, 'coast', 38.00, 95.00);

-- What cooling costs on top.
INSERT INTO surcharges (id, cooling, percent) VALUES (1, 'none', 0.00);
INSERT INTO surcharges (id, cooling, percent) VALUES (2, 'chilled', 15.00);
INSERT INTO surcharges (id, cooling, percent) VALUES (3, 'frozen', 25.00);

-- Where we deliver.
INSERT INTO places (id, name, zone_id) VALUES (1, 'Brackwell', 1);
INSERT INTO places (id, name, zone_id) VALUES (2, 'Graystone', 1);
INSERT INTO places (id, name, zone_id) VALUES (3, 'Eastmere', 2);
INSERT INTO places (id, name, zone_id) VALUES (4, 'Ferrow', 2);
INSERT INTO places (id, name, zone_id) VALUES (5, 'Aldport', 3);
INSERT INTO places (id, name, zone_id) VALUES (6, 'Duneham', 3);
INSERT INTO places (id, name, zone_id) VALUES (7, 'Corran', 2);
INSERT INTO places (id, name, zone_id) VALUES (8, 'Tarnside', 1);

-- Four routes, three of which call at Aldport.
INSERT INTO routes (id, code, name) VALUES (1, 'N', 'North line');
INSERT INTO routes (id, code, name) VALUES (2, 'E', 'East line');
INSERT INTO routes (id, code, name) VALUES (3, 'S', 'South line');
INSERT INTO routes (id, code, name) VALUES (4, 'C', 'Cold round');

-- The stops of each route in order.
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (1, 1, 2, 1);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (2, 1, 4, 2);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (3, 1, 5, 3);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (4, 2, 3, 1);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (5, 2, 6, 2);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (6, 2, 5, 3);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (7, 3, 8, 1);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (8, 3, 1, 2);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (9, 3, 7, 3);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (10, 4, 3, 1);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (11, 4, 5, 2);
INSERT INTO route_stops (id, route_id, place_id, position) VALUES (12, 4, 6, 3);

-- Three reefers, of which the small one is the spare.
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (1, 'BW21 HAL', 'curtain', 18, 9500, 'ready');
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (2, 'BW24 KLD', 'reefer', 20, 11000, 'ready');
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (3, 'BW19 FRO', 'reefer', 12, 6000, 'ready');
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (4, 'BW22 TRK', 'curtain', 33, 24000, 'ready');
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (5, 'BW20 BOX', 'box', 26, 15000, 'ready');
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (6, 'BW23 ICE', 'reefer', 20, 11000, 'ready');
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (7, 'BW17 OLD', 'curtain', 18, 9000, 'workshop');
INSERT INTO vehicles (id, plate, kind, pallet_spaces, max_kg, status) VALUES (8, 'BW18 VAN', 'box', 18, 8000, 'ready');

-- Three drivers hold the ADR certificate; one of them is off.
INSERT INTO drivers (id, name, adr_certificate, status) VALUES (1, 'Marta Kowal', 1, 'on_duty');
INSERT INTO drivers (id, name, adr_certificate, status) VALUES (2, 'Dean Holloway', 0, 'on_duty');
INSERT INTO drivers (id, name, adr_certificate, status) VALUES (3, 'Yusuf Demir', 1, 'on_duty');
INSERT INTO drivers (id, name, adr_certificate, status) VALUES (4, 'Pauline Rees', 0, 'on_duty');
INSERT INTO drivers (id, name, adr_certificate, status) VALUES (5, 'Stefan Brandt', 1, 'off');
INSERT INTO drivers (id, name, adr_certificate, status) VALUES (6, 'Nia Prosser', 0, 'on_duty');
INSERT INTO drivers (id, name, adr_certificate, status) VALUES (7, 'Tom Quayle', 0, 'on_duty');

-- Partners who drive what we cannot; one agreement has ended.
INSERT INTO partners (id, name, cooled, price_per_pallet, active) VALUES (1, 'Kestrel Cold Chain', 1, 41.00, 1);
INSERT INTO partners (id, name, cooled, price_per_pallet, active) VALUES (2, 'Polar Lane', 1, 33.50, 1);
INSERT INTO partners (id, name, cooled, price_per_pallet, active) VALUES (3, 'Moorland Carriers', 0, 24.00, 1);
INSERT INTO partners (id, name, cooled, price_per_pallet, active) VALUES (4, 'Two Rivers Transport', 1, 36.00, 1);
INSERT INTO partners (id, name, cooled, price_per_pallet, active) VALUES (5, 'Farrow Freight', 1, 30.00, 0);

-- Tours that are over, on the road, planned and cancelled.
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (1, 'N-13', 1, 4, 2, date('now', '-7 days'), 'completed');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (2, 'E-20', 2, 5, 3, date('now', '-6 days'), 'completed');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (3, 'C-06', 4, 2, 4, date('now', '-5 days'), 'completed');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (4, 'S-02', 3, 8, 6, date('now', '-1 days'), 'departed');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (5, 'N-14', 1, 1, 1, date('now', '+3 days'), 'planned');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (6, 'N-15', 1, 4, 2, date('now', '+5 days'), 'planned');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (7, 'C-07', 4, 2, 4, date('now', '+3 days'), 'planned');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (8, 'C-08', 4, 6, 7, date('now', '+3 days'), 'planned');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (9, 'E-21', 2, 5, 3, date('now', '+4 days'), 'planned');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (10, 'S-03', 3, 8, 6, date('now', '+4 days'), 'planned');
INSERT INTO tours (id, code, route_id, vehicle_id, driver_id, departs_on, status) VALUES (11, 'N-16', 1, 1, 1, date('now', '+9 days'), 'cancelled');

-- Consignments in every state. Those of tour C-07 do not all fit into the spare reefer, and cheese 3018 fits on no tour.
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3001, 1, 'Vases', 5, 2, 520, 'none', NULL, date('now', '-6 days'), 'delivered', 1, NULL, datetime('now', '-12 days'), datetime('now', '-7 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3002, 2, 'Tinned soup', 4, 5, 3900, 'none', NULL, date('now', '-6 days'), 'delivered', 1, NULL, datetime('now', '-12 days'), datetime('now', '-7 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3003, 10, 'Calendars', 5, 3, 1650, 'none', NULL, date('now', '-5 days'), 'delivered', 2, NULL, datetime('now', '-11 days'), datetime('now', '-6 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3004, 3, 'Butter', 6, 6, 4100, 'chilled', NULL, date('now', '-30 days'), 'delivered', NULL, 2, datetime('now', '-36 days'), datetime('now', '-31 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3005, 7, 'Poultry feed', 2, 6, 5400, 'none', NULL, date('now', '-6 days'), 'delivered', 1, NULL, datetime('now', '-12 days'), datetime('now', '-7 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3006, 2, 'Mustard', 5, 1, 310, 'none', NULL, date('now', '-5 days'), 'delivered', 2, NULL, datetime('now', '-11 days'), datetime('now', '-6 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3007, 8, 'Wood varnish', 3, 3, 1500, 'none', '3', date('now', '-5 days'), 'delivered', 2, NULL, datetime('now', '-11 days'), datetime('now', '-6 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3008, 3, 'Cream', 3, 4, 2300, 'chilled', NULL, date('now', '-21 days'), 'delivered', NULL, 4, datetime('now', '-27 days'), datetime('now', '-22 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3009, 3, 'Yoghurt', 5, 7, 4200, 'chilled', NULL, date('now', '-4 days'), 'delivered', 3, NULL, datetime('now', '-10 days'), datetime('now', '-5 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3010, 2, 'Fresh pasta', 3, 4, 1800, 'chilled', NULL, date('now', '-4 days'), 'delivered', 3, NULL, datetime('now', '-10 days'), datetime('now', '-5 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3011, 10, 'Magazines', 4, 6, 3600, 'none', NULL, date('now', '+4 days'), 'planned', 5, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3012, 8, 'Solvent paint', 5, 4, 2000, 'none', '3', date('now', '+5 days'), 'planned', 5, NULL, datetime('now', '-1 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3013, 2, 'Bottled juice', 2, 7, 5600, 'none', NULL, date('now', '-6 days'), 'delivered', 1, NULL, datetime('now', '-12 days'), datetime('now', '-7 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3014, 9, 'Spades and rakes', 2, 4, 1200, 'none', NULL, date('now', '+4 days'), 'planned', 5, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3015, 2, 'Crisps', 7, 5, 700, 'none', NULL, date('now', '-3 days'), 'cancelled', NULL, NULL, datetime('now', '-9 days'), datetime('now', '-4 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3016, 2, 'Frozen peas', 3, 2, 1300, 'frozen', NULL, date('now', '-4 days'), 'delivered', 3, NULL, datetime('now', '-10 days'), datetime('now', '-5 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3017, 1, 'Tableware', 5, 2, 640, 'none', NULL, date('now', '+6 days'), 'open', NULL, NULL, datetime('now', '+0 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3018, 3, 'Cheese', 6, 5, 3100, 'chilled', NULL, date('now', '+4 days'), 'open', NULL, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3019, 4, 'Candles, boxed', 5, 2, 300, 'none', NULL, date('now', '+6 days'), 'open', NULL, NULL, datetime('now', '+0 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3020, 1, 'Glaze in buckets', 7, 1, 450, 'none', NULL, date('now', '+7 days'), 'open', NULL, NULL, datetime('now', '+1 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3021, 5, 'Medicines', 3, 4, 900, 'chilled', NULL, date('now', '+4 days'), 'planned', 7, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3022, 3, 'Yoghurt', 5, 8, 4800, 'chilled', NULL, date('now', '+4 days'), 'planned', 7, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3023, 6, 'Berries', 6, 6, 1900, 'chilled', NULL, date('now', '+4 days'), 'planned', 7, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3024, 9, 'Pressure washers', 8, 3, 990, 'none', NULL, date('now', '+0 days'), 'on_the_road', 4, NULL, datetime('now', '-6 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3025, 10, 'Paper on reels', 5, 14, 12600, 'none', NULL, date('now', '+6 days'), 'planned', 6, NULL, datetime('now', '+0 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3026, 8, 'Water-based wall paint', 4, 8, 6400, 'none', NULL, date('now', '+6 days'), 'planned', 6, NULL, datetime('now', '+0 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3027, 7, 'Horse feed', 2, 3, 2900, 'none', NULL, date('now', '+6 days'), 'planned', 6, NULL, datetime('now', '+0 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3028, 9, 'Battery mowers', 6, 6, 2450, 'none', '9', date('now', '+5 days'), 'planned', 9, NULL, datetime('now', '-1 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3029, 2, 'Tinned tomatoes', 3, 7, 4900, 'none', NULL, date('now', '+5 days'), 'planned', 9, NULL, datetime('now', '-1 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3030, 4, 'Candles, boxed', 5, 5, 2300, 'none', NULL, date('now', '+6 days'), 'planned', 9, NULL, datetime('now', '+0 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3031, 2, 'Grated cheese', 5, 10, 5200, 'chilled', NULL, date('now', '+4 days'), 'planned', 8, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3032, 6, 'Salads', 6, 7, 2100, 'chilled', NULL, date('now', '+4 days'), 'planned', 8, NULL, datetime('now', '-2 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3033, 10, 'Brochures', 7, 5, 2000, 'none', NULL, date('now', '+5 days'), 'planned', 10, NULL, datetime('now', '-1 days'), datetime('now', '-1 days'));
INSERT INTO consignments (id, customer_id, goods, place_id, pallets, kg, cooling, adr_class, deliver_by, status, tour_id, partner_id, created_at, updated_at) VALUES (3034, 2, 'Tinned fish', 7, 3, 1400, 'none', NULL, date('now', '+8 days'), 'open', NULL, NULL, datetime('now', '+2 days'), datetime('now', '-1 days'));

-- What drivers and office have to know.
INSERT INTO notes (id, consignment_id, kind, text, created_at) VALUES (1, 3001, 'driver', 'Fragile, top layer only.', datetime('now', '-8 days'));
INSERT INTO notes (id, consignment_id, kind, text, created_at) VALUES (2, 3009, 'office', 'Signed for by the night porter.', datetime('now', '-4 days'));
INSERT INTO notes (id, consignment_id, kind, text, created_at) VALUES (3, 3011, 'driver', 'Dock 2, ring twice.', datetime('now', '-2 days'));
INSERT INTO notes (id, consignment_id, kind, text, created_at) VALUES (4, 3012, 'driver', 'Papers for dangerous goods are in the cab folder.', datetime('now', '-2 days'));
INSERT INTO notes (id, consignment_id, kind, text, created_at) VALUES (5, 3016, 'office', 'Waited 40 minutes at the cold store, charged.', datetime('now', '-4 days'));
INSERT INTO notes (id, consignment_id, kind, text, created_at) VALUES (6, 3021, 'driver', 'Print the temperature log at the stop.', datetime('now', '-1 days'));
INSERT INTO notes (id, consignment_id, kind, text, created_at) VALUES (7, 3030, 'call_customer', 'Customer wants to hear the day before when we come.', datetime('now', '-1 days'));

-- Charges so far. Fennimore Foods has one freight charge and one for waiting.
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (1, 3001, 'freight', 95.00, 'Freight to Aldport, minimum charge', datetime('now', '-5 days'));
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (2, 3002, 'freight', 157.50, 'Freight to Ferrow, 5 pallets', datetime('now', '-5 days'));
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (3, 3003, 'freight', 114.00, 'Freight to Aldport, 3 pallets', datetime('now', '-5 days'));
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (4, 3016, 'waiting', 18.00, 'Waiting at the cold store', datetime('now', '-4 days'));
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (5, 3007, 'freight', 94.50, 'Freight to Eastmere, 3 pallets', datetime('now', '-4 days'));
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (6, 3007, 'extra', 25.00, 'Papers for dangerous goods', datetime('now', '-4 days'));
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (7, 3009, 'freight', 305.90, 'Freight to Aldport, 7 pallets, chilled', datetime('now', '-3 days'));
INSERT INTO charges (id, consignment_id, kind, amount, text, created_at) VALUES (8, 3004, 'freight', 262.20, 'Freight to Duneham, 6 pallets, chilled', datetime('now', '-29 days'));
