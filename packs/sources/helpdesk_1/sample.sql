-- Three service levels; premium customers must be helped within a day.
INSERT INTO sla_policies (id, name, first_response_hours, resolution_hours) VALUES (1, 'Basic', 24, 240);
INSERT INTO sla_policies (id, name, first_response_hours, resolution_hours) VALUES (2, 'Standard', 8, 96);
INSERT INTO sla_policies (id, name, first_response_hours, resolution_hours) VALUES (3, 'Premium', 2, 24);

-- The four groups of the desk.
INSERT INTO groups (id, name, description) VALUES (1, 'Machines', 'Faults and questions about espresso machines and grinders');
INSERT INTO groups (id, name, description) VALUES (2, 'Billing', 'Invoices, refunds and payment questions');
INSERT INTO groups (id, name, description) VALUES (3, 'Orders', 'New orders, deliveries and returns');
INSERT INTO groups (id, name, description) VALUES (4, 'Field Service', 'Visits by a technician');

-- Nine agents, three of them in Field Service, so that a hand-over has somewhere to go. Marek is on leave.
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (1, 'robin', 'Robin Hale', 'robin.hale@fernhill.example', 1, 'available');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (2, 'priya', 'Priya Raman', 'priya.raman@fernhill.example', 1, 'available');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (3, 'tomas', 'Tomas Novak', 'tomas.novak@fernhill.example', 1, 'available');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (4, 'marek', 'Marek Sobol', 'marek.sobol@fernhill.example', 1, 'on_leave');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (5, 'ines', 'Ines Duarte', 'ines.duarte@fernhill.example', 2, 'available');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (6, 'oskar', 'Oskar Lind', 'oskar.lind@fernhill.example', 3, 'available');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (7, 'lena', 'Lena Fischer', 'lena.fischer@fernhill.example', 4, 'available');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (8, 'jonas', 'Jonas Weber', 'jonas.weber@fernhill.example', 4, 'available');
INSERT INTO agents (id, login, name, email, group_id, availability) VALUES (9, 'aiko', 'Aiko Mori', 'aiko.mori@fernhill.example', 4, 'available');

-- Customers of every service level. Two of them are called Lindqvist, and one wants a fixed contact whose name is written nowhere.
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (1, 'Greta Lindqvist', 'Cafe Lindqvist', 'greta@cafelindqvist.example', '+46 8 555 0101', 2, NULL, datetime('now', '-820 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (2, 'Nadia Brandt', 'Hotel Aurelia', 'nadia.brandt@hotelaurelia.example', '+49 89 555 0102', 3, 'Wants one fixed contact for everything. The desk lead knows who that is.', datetime('now', '-640 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (3, 'Samuel Okoye', 'Brightside Offices', 'samuel@brightside.example', '+44 20 555 0103', 2, NULL, datetime('now', '-510 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (4, 'Chiara Conti', 'Bar Conti', 'chiara@barconti.example', '+39 06 555 0104', 1, 'Prefers to be called after 15:00.', datetime('now', '-1200 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (5, 'Henrik Lindqvist', 'Roastery Nord', 'henrik@roasterynord.example', '+46 31 555 0105', 2, NULL, datetime('now', '-300 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (6, 'Mei Tanaka', 'Kissa Tanaka', 'mei@kissatanaka.example', NULL, 1, NULL, datetime('now', '-95 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (7, 'Paul Marchand', 'Grand Hotel Marchand', 'paul@ghmarchand.example', '+33 1 555 0107', 3, NULL, datetime('now', '-400 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (8, 'Ruth Adler', 'Adler Books and Coffee', 'ruth@adlerbooks.example', '+43 1 555 0108', 1, NULL, datetime('now', '-210 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (9, 'Diego Salas', 'Cowork Salas', 'diego@coworksalas.example', '+34 91 555 0109', 2, 'Pays by purchase order only.', datetime('now', '-150 days'));
INSERT INTO customers (id, name, company, email, phone, sla_policy_id, notes, created_at) VALUES (10, 'Ivy Chen', 'Dockside Coworking', 'ivy@dockside.example', '+1 415 555 0110', 2, NULL, datetime('now', '-33 days'));

-- Thirty-one tickets. 1003, 1017 and 1021 are one fault reported three times; 1019 and 1022 only look like it. Lena holds six tickets, of which four are neither solved nor closed.
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1001, 'Invoice 8841 shows two service visits', 'We had one visit in that month, not two.', 'solved', 'normal', 3, 2, 5, datetime('now', '-48 days'), datetime('now', '-45 days'), datetime('now', '-45 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1002, 'Milk frother too loud', 'Guests at the bar complain about the noise.', 'solved', 'low', 2, 1, 3, datetime('now', '-44 days'), datetime('now', '-40 days'), datetime('now', '-40 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1003, 'Steam wand loses pressure', 'After about ten cups the steam wand on our Duo 2 has no pressure left.', 'solved', 'normal', 1, 1, 2, datetime('now', '-31 days'), datetime('now', '-24 days'), datetime('now', '-24 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1004, 'Grinder burrs worn', 'Coffee tastes dusty, please send new burrs.', 'closed', 'normal', 4, 1, 3, datetime('now', '-90 days'), datetime('now', '-80 days'), datetime('now', '-82 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1005, 'Group head gasket under warranty?', 'Machine is eleven months old and the gasket leaks coffee grounds.', 'open', 'normal', 6, 1, 2, datetime('now', '-3 days'), datetime('now', '-2 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1006, 'Display stays dark', 'The display of our Solo 1 has been dark since Monday. It is nine months old.', 'pending', 'normal', 8, 1, 3, datetime('now', '-9 days'), datetime('now', '-6 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1007, 'Yearly maintenance visit', 'Please plan the yearly visit for both machines.', 'open', 'normal', 3, 4, 7, datetime('now', '-5 days'), datetime('now', '-4 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1008, 'Pump replaced, now vibrates', 'Since the visit the pump shakes the whole counter.', 'open', 'high', 9, 4, 7, datetime('now', '-4 days'), datetime('now', '-3 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1009, 'Water under the machine', 'There is a puddle under the Duo 2 every morning.', 'open', 'urgent', 5, 1, 3, datetime('now', '-2 days'), datetime('now', '-1 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1010, 'Refund for returned grinder', 'The grinder went back three weeks ago and no refund has come.', 'open', 'high', 10, 2, 5, datetime('now', '-6 days'), datetime('now', '-5 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1011, 'Change of delivery address', 'From next month please deliver to the new site.', 'open', 'low', 10, 3, 6, datetime('now', '-3 days'), datetime('now', '-3 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1012, 'Grinder stops in the middle of a dose', 'The G5 stops after two seconds. It is only four months old.', 'open', 'normal', 10, 1, 2, datetime('now', '-2 days'), datetime('now', '-2 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1013, 'Visit to level the counter machine', 'The machine stands crooked since our renovation.', 'pending', 'low', 8, 4, 7, datetime('now', '-8 days'), datetime('now', '-7 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1014, 'Boiler makes a knocking sound', 'It knocks when heating up, every time.', 'open', 'urgent', 7, 4, 7, datetime('now', '-1 days'), datetime('now', '-1 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1015, 'Installation of second Duo 2', 'All went well, thank you.', 'solved', 'normal', 7, 4, 7, datetime('now', '-20 days'), datetime('now', '-12 days'), datetime('now', '-12 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1016, 'Old machine to be collected', 'Please collect the old Solo 1 when you come.', 'closed', 'low', 3, 4, 7, datetime('now', '-70 days'), datetime('now', '-60 days'), datetime('now', '-61 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1017, 'Steam wand weak again', 'Same thing as last time: no steam pressure after some cups.', 'open', 'normal', 1, 1, 2, datetime('now', '-4 days'), datetime('now', '-4 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1018, 'Hot water tap drips', 'Drips about once a second, also when the machine is off.', 'open', 'urgent', 4, 1, 2, datetime('now', '-3 days'), datetime('now', '-2 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1019, 'Steam wand: which cleaner may I use?', 'Is the citric one safe for the steam wand of the Duo 2?', 'open', 'low', 1, 1, 3, datetime('now', '-3 days'), datetime('now', '-3 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1020, 'Order of 12 milk jugs', 'Ordered two weeks ago, when will they come?', 'pending', 'normal', 4, 3, 6, datetime('now', '-7 days'), datetime('now', '-5 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1021, 'No pressure on steam wand!!', 'Third time I write about this. The steam wand has no pressure after ten cups.', 'open', 'high', 1, 1, NULL, datetime('now', '-1 days'), datetime('now', '-1 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1022, 'Steam wand loses pressure', 'Our Duo 2 loses steam pressure in the morning.', 'open', 'normal', 5, 1, 3, datetime('now', '-2 days'), datetime('now', '-2 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1023, 'Copy of all invoices of the year', 'My accountant needs them.', 'open', 'low', 1, 2, 5, datetime('now', '-2 days'), datetime('now', '-2 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1024, 'Invoice sent to the wrong department', 'Please send invoices to the front office from now on.', 'solved', 'normal', 2, 2, 5, datetime('now', '-29 days'), datetime('now', '-27 days'), datetime('now', '-27 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1025, 'Breakfast machine shows error E17', 'The machine in the breakfast room shows E17 and makes no coffee. Who is looking after this?', 'open', 'high', 2, 1, NULL, datetime('now', '-1 hours'), datetime('now', '-1 hours'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1026, 'Grinder replaced, old one to be returned', 'Where do we send the old grinder?', 'solved', 'normal', 2, 1, 2, datetime('now', '-17 days'), datetime('now', '-15 days'), datetime('now', '-15 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1027, 'Tank sensor reads empty', 'The tank is full, the machine says empty. Bought half a year ago.', 'open', 'normal', 9, 1, 2, datetime('now', '-6 days'), datetime('now', '-5 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1028, 'Portafilter handle broke off', 'The handle broke, the machine is seven months old.', 'solved', 'normal', 6, 1, 3, datetime('now', '-25 days'), datetime('now', '-21 days'), datetime('now', '-21 days'));
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1029, 'Purchase order number missing on invoice', 'Our system refuses invoices without a number.', 'pending', 'normal', 9, 2, 5, datetime('now', '-10 days'), datetime('now', '-8 days'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1030, 'Sparks from the mains plug', 'Saw small sparks at the plug of the machine this morning. Switched it off.', 'open', 'urgent', 7, 4, 8, datetime('now', '-5 hours'), datetime('now', '-4 hours'), NULL);
INSERT INTO tickets (id, subject, description, status, priority, customer_id, group_id, assignee_id, created_at, updated_at, solved_at) VALUES (1031, 'Inlet hose was leaking', 'Your technician has changed the hose, all dry again.', 'solved', 'normal', 3, 4, 8, datetime('now', '-14 days'), datetime('now', '-13 days'), datetime('now', '-13 days'));

-- What customers and agents wrote. The comments on Greta's tickets show that all three are the same fault.
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (1, 1001, 'agent', 'Ines Duarte', 'You are right, we have taken the second visit off the invoice.', 1, datetime('now', '-45 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (2, 1002, 'agent', 'Tomas Novak', 'A longer wand tip makes it quieter; one is on its way.', 1, datetime('now', '-40 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (3, 1003, 'agent', 'Priya Raman', 'Please descale the steam circuit and try again.', 1, datetime('now', '-28 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (4, 1003, 'customer', 'Greta Lindqvist', 'Works for now, thank you.', 1, datetime('now', '-24 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (5, 1005, 'agent', 'Priya Raman', 'Please send a photo of the serial plate.', 1, datetime('now', '-2 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (6, 1006, 'agent', 'Tomas Novak', 'Waiting for the serial number from the customer.', 0, datetime('now', '-6 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (7, 1008, 'agent', 'Lena Fischer', 'I suspect a missing rubber foot. Will bring one.', 0, datetime('now', '-3 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (8, 1009, 'agent', 'Tomas Novak', 'Please close the water supply at night until we have been there.', 1, datetime('now', '-1 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (9, 1010, 'customer', 'Ivy Chen', 'Any news?', 1, datetime('now', '-5 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (10, 1013, 'agent', 'Lena Fischer', 'Waiting until the carpenter has finished.', 0, datetime('now', '-7 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (11, 1014, 'customer', 'Paul Marchand', 'Please hurry, we have a conference on Thursday.', 1, datetime('now', '-20 hours'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (12, 1017, 'customer', 'Greta Lindqvist', 'It is the same Duo 2 as the first time.', 1, datetime('now', '-3 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (13, 1018, 'agent', 'Priya Raman', 'Valve set ordered, arrives this week.', 0, datetime('now', '-2 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (14, 1020, 'agent', 'Oskar Lind', 'The jugs are on back order; expected within ten days.', 1, datetime('now', '-5 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (15, 1024, 'agent', 'Ines Duarte', 'Changed, the next invoice goes to the front office.', 1, datetime('now', '-27 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (16, 1026, 'agent', 'Priya Raman', 'A return label is in the box of the new grinder.', 1, datetime('now', '-15 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (17, 1027, 'agent', 'Priya Raman', 'Please clean the float and restart.', 1, datetime('now', '-5 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (18, 1028, 'agent', 'Tomas Novak', 'A new handle was sent under warranty.', 1, datetime('now', '-21 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (19, 1029, 'agent', 'Ines Duarte', 'Which number shall we print?', 1, datetime('now', '-8 days'));
INSERT INTO ticket_comments (id, ticket_id, author_type, author_name, body, is_public, created_at) VALUES (20, 1030, 'agent', 'Jonas Weber', 'Do not switch it on again. I am with you tomorrow at eight.', 1, datetime('now', '-4 hours'));

-- Tags the desk sorts by.
INSERT INTO tags (id, name) VALUES (1, 'warranty');
INSERT INTO tags (id, name) VALUES (2, 'water-leak');
INSERT INTO tags (id, name) VALUES (3, 'safety');
INSERT INTO tags (id, name) VALUES (4, 'steam');
INSERT INTO tags (id, name) VALUES (5, 'refund');
INSERT INTO tags (id, name) VALUES (6, 'spare-part');

-- Which ticket carries which tag. Four live tickets and one solved one carry 'warranty'; every live 'water-leak' is urgent and assigned, the solved one is not urgent.
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (1, 1003, 4);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (2, 1004, 6);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (3, 1005, 1);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (4, 1006, 1);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (5, 1009, 2);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (6, 1010, 5);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (7, 1017, 4);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (8, 1018, 2);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (9, 1019, 4);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (10, 1022, 4);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (11, 1027, 1);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (12, 1028, 1);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (13, 1028, 6);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (14, 1030, 3);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (15, 1008, 1);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (16, 1002, 6);
INSERT INTO ticket_tags (id, ticket_id, tag_id) VALUES (17, 1031, 2);
