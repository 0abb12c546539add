-- The main house, two branches and the book bus, which stands still in winter.
INSERT INTO branches (id, name, address, status) VALUES (1, 'Main', 'Market Square 1', 'open');
INSERT INTO branches (id, name, address, status) VALUES (2, 'Riverside', 'Quay Street 14', 'open');
INSERT INTO branches (id, name, address, status) VALUES (3, 'Hillside', 'Beacon Road 30', 'open');
INSERT INTO branches (id, name, address, status) VALUES (4, 'Book Bus', 'Depot Lane 2', 'closed');

-- Schools have no loan period here: each has an agreement of its own, which the staff knows.
INSERT INTO loan_rules (id, category, max_loans, loan_weeks, max_renewals, fine_per_day, fine_limit) VALUES (1, 'adult', 8, 3, 2, 0.20, 5.00);
INSERT INTO loan_rules (id, category, max_loans, loan_weeks, max_renewals, fine_per_day, fine_limit) VALUES (2, 'student', 12, 4, 3, 0.20, 5.00);
INSERT INTO loan_rules (id, category, max_loans, loan_weeks, max_renewals, fine_per_day, fine_limit) VALUES (3, 'junior', 10, 3, 2, 0.05, 1.00);
INSERT INTO loan_rules (id, category, max_loans, loan_weeks, max_renewals, fine_per_day, fine_limit) VALUES (4, 'school', 40, NULL, 0, 0.00, 0.00);

-- Names that sound alike (Okafor and Okoro, Rossi and Russo, two Kaplans), two schools, and two cards that are blocked for what is owed.
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (1, 'M-2007', 'Agnes Thornbury', 'adult', 'active', 'agnes.thornbury@example.org', '01632 960 101', NULL, date('now', '-2900 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (2, 'M-2014', 'Mateo Rossi', 'adult', 'active', 'mateo.rossi@example.org', '01632 960 102', NULL, date('now', '-700 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (3, 'M-2021', 'Hanna Okafor', 'adult', 'active', 'hanna.okafor@example.org', '01632 960 103', NULL, date('now', '-1300 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (4, 'M-2028', 'Bruno Keller', 'adult', 'blocked', 'bruno.keller@example.org', NULL, 'Moved twice; letters come back.', date('now', '-2100 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (5, 'M-2035', 'Noa Pereira', 'junior', 'active', NULL, '01632 960 105', 'Father: Rui Pereira, collects her books.', date('now', '-400 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (6, 'M-2042', 'Lucas Weir', 'junior', 'active', NULL, '01632 960 106', NULL, date('now', '-150 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (7, 'M-2049', 'Priscilla Dunne', 'adult', 'active', 'priscilla.dunne@example.org', '01632 960 107', NULL, date('now', '-3600 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (8, 'M-2056', 'Iris Kaplan', 'school', 'active', 'iris.kaplan@example.org', '01632 960 108', 'Card of Mill Lane School, class 6. Loan period as agreed with the head of lending.', date('now', '-800 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (9, 'M-2063', 'Samir Haddad', 'student', 'active', 'samir.haddad@example.org', '01632 960 109', NULL, date('now', '-250 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (10, 'M-2070', 'Oscar Lund', 'adult', 'active', 'oscar.lund@example.org', '01632 960 110', NULL, date('now', '-1900 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (11, 'M-2077', 'Hannah Okoro', 'adult', 'active', 'hannah.okoro@example.org', '01632 960 111', NULL, date('now', '-90 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (12, 'M-2084', 'Wendy Marsh', 'adult', 'active', 'wendy.marsh@example.org', '01632 960 112', 'Pays the damaged film in instalments.', date('now', '-1500 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (13, 'M-2091', 'Tobias Finch', 'student', 'active', 'tobias.finch@example.org', '01632 960 113', NULL, date('now', '-500 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (14, 'M-2098', 'Greta Solberg', 'adult', 'blocked', 'greta.solberg@example.org', '01632 960 114', NULL, date('now', '-1100 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (15, 'M-2105', 'Ivan Kaplan', 'adult', 'active', 'ivan.kaplan@example.org', '01632 960 115', NULL, date('now', '-620 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (16, 'M-2112', 'Matteo Russo', 'adult', 'active', 'matteo.russo@example.org', '01632 960 116', NULL, date('now', '-330 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (17, 'M-2119', 'Ruth Abara', 'school', 'active', 'ruth.abara@example.org', '01632 960 117', 'Card of St Brannoc''s School. Loan period as agreed with the head of lending.', date('now', '-460 days'));
INSERT INTO readers (id, card, name, category, status, email, phone, notes, joined_on) VALUES (18, 'M-2126', 'Elin Lund', 'junior', 'active', NULL, NULL, 'Daughter of Oscar Lund.', date('now', '-380 days'));

-- Two titles about salt and harbours, and one title as a book and as a recording.
INSERT INTO titles (id, title, author, kind, year) VALUES (1, 'The Salt Harbour', 'Maren Holt', 'book', 2015);
INSERT INTO titles (id, title, author, kind, year) VALUES (2, 'Salt: A Harbour Kitchen', 'Jo Pascoe', 'book', 2019);
INSERT INTO titles (id, title, author, kind, year) VALUES (3, 'Copper Sky', 'D. R. Amadi', 'book', 2023);
INSERT INTO titles (id, title, author, kind, year) VALUES (4, 'Copper Sky', 'D. R. Amadi', 'audiobook', 2024);
INSERT INTO titles (id, title, author, kind, year) VALUES (5, 'Rivers for Beginners', 'Tom Ashdown', 'book', 2011);
INSERT INTO titles (id, title, author, kind, year) VALUES (6, 'The Otter Year', 'Leila Strand', 'book', 2018);
INSERT INTO titles (id, title, author, kind, year) VALUES (7, 'Maps of Moving Water', 'P. Venn', 'book', 2020);
INSERT INTO titles (id, title, author, kind, year) VALUES (8, 'Bridges, Weirs and Mills', 'Nell Crowther', 'book', 2009);
INSERT INTO titles (id, title, author, kind, year) VALUES (9, 'Last Train to Varnholt', 'K. Iversen', 'dvd', 2016);
INSERT INTO titles (id, title, author, kind, year) VALUES (10, 'Varnholt on Foot', 'Dorrit Haas', 'book', 2012);
INSERT INTO titles (id, title, author, kind, year) VALUES (11, 'A Winter Alphabet', 'Sol Bergman', 'book', 2017);
INSERT INTO titles (id, title, author, kind, year) VALUES (12, 'Dragons of the Allotment', 'Pim Waller', 'book', 2021);
INSERT INTO titles (id, title, author, kind, year) VALUES (13, 'The Allotment Almanac', 'Joan Tarrow', 'book', 2014);
INSERT INTO titles (id, title, author, kind, year) VALUES (14, 'Quiet Engines', 'H. Tanaka-Reid', 'book', 2022);
INSERT INTO titles (id, title, author, kind, year) VALUES (15, 'Tide Table', 'Northwick Games', 'game', 2020);

-- Copies in every state. The film has two copies of different price; one is in repair.
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (101, 'ML003737', 1, 1, 'on_loan', 12.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (102, 'ML003774', 1, 2, 'available', 12.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (103, 'ML003811', 2, 1, 'on_loan', 21.50);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (104, 'ML003848', 3, 1, 'on_loan', 16.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (105, 'ML003885', 3, 2, 'on_loan', 16.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (106, 'ML003922', 3, 1, 'hold_shelf', 16.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (107, 'ML003959', 4, 1, 'on_loan', 29.00);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (108, 'ML003996', 5, 1, 'hold_shelf', 9.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (109, 'ML004033', 6, 1, 'hold_shelf', 11.50);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (110, 'ML004070', 7, 1, 'hold_shelf', 24.00);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (111, 'ML004107', 8, 3, 'on_loan', 18.00);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (112, 'ML004144', 9, 1, 'on_loan', 24.90);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (113, 'ML004181', 9, 3, 'repair', 22.00);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (114, 'ML004218', 10, 1, 'available', 14.50);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (115, 'ML004255', 11, 2, 'hold_shelf', 8.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (116, 'ML004292', 11, 3, 'on_loan', 8.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (117, 'ML004329', 12, 2, 'on_loan', 7.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (118, 'ML004366', 13, 2, 'hold_shelf', 15.00);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (119, 'ML004403', 14, 1, 'on_loan', 17.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (120, 'ML004440', 14, 3, 'on_loan', 17.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (121, 'ML004477', 15, 2, 'available', 34.00);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (122, 'ML004514', 13, 1, 'on_loan', 15.00);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (123, 'ML004551', 5, 3, 'on_loan', 9.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (124, 'ML004588', 1, 1, 'hold_shelf', 12.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (125, 'ML004625', 3, 1, 'in_transit', 16.99);
INSERT INTO copies (id, barcode, title_id, branch_id, status, price) VALUES (126, 'ML004662', 12, 1, 'lost', 7.99);

-- Loans that run, that are overdue, and old ones. A school's loan of long ago says nothing about today's agreement.
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (201, 102, 7, date('now', '-400 days'), date('now', '-379 days'), 1, date('now', '-381 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (202, 111, 8, date('now', '-700 days'), date('now', '-672 days'), 0, date('now', '-676 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (203, 123, 17, date('now', '-30 days'), date('now', '+12 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (204, 101, 3, date('now', '-19 days'), date('now', '+2 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (205, 103, 3, date('now', '-12 days'), date('now', '+9 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (206, 104, 12, date('now', '-10 days'), date('now', '+11 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (207, 105, 15, date('now', '-16 days'), date('now', '+5 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (208, 107, 7, date('now', '-5 days'), date('now', '+16 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (209, 111, 1, date('now', '-8 days'), date('now', '+13 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (210, 112, 10, date('now', '-90 days'), date('now', '-69 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (211, 116, 18, date('now', '-6 days'), date('now', '+15 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (212, 117, 9, date('now', '-15 days'), date('now', '+13 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (213, 119, 2, date('now', '-4 days'), date('now', '+17 days'), 0, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (214, 120, 16, date('now', '-39 days'), date('now', '+3 days'), 1, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (215, 122, 14, date('now', '-183 days'), date('now', '-99 days'), 2, NULL, NULL);
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (216, 126, 4, date('now', '-420 days'), date('now', '-399 days'), 0, date('now', '-370 days'), 'lost');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (217, 114, 10, date('now', '-220 days'), date('now', '-199 days'), 0, date('now', '-186 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (218, 109, 5, date('now', '-140 days'), date('now', '-119 days'), 0, date('now', '-110 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (219, 101, 13, date('now', '-260 days'), date('now', '-232 days'), 0, date('now', '-223 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (220, 113, 12, date('now', '-80 days'), date('now', '-59 days'), 0, date('now', '-60 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (221, 102, 9, date('now', '-170 days'), date('now', '-142 days'), 0, date('now', '-110 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (222, 110, 7, date('now', '-1100 days'), date('now', '-1079 days'), 0, date('now', '-1040 days'), 'lost');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (223, 121, 9, date('now', '-75 days'), date('now', '-47 days'), 0, date('now', '-50 days'), 'returned');
INSERT INTO loans (id, copy_id, reader_id, loaned_on, due_on, renewals, ended_on, ended_as) VALUES (224, 118, 14, date('now', '-300 days'), date('now', '-279 days'), 0, date('now', '-290 days'), 'returned');

-- Holds; the order of the queue is the order in which they were placed, not that of their numbers.
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (301, 3, 13, 1, 106, 'ready', datetime('now', '-30 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (302, 3, 7, 1, NULL, 'waiting', datetime('now', '-12 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (303, 3, 2, 1, NULL, 'waiting', datetime('now', '-14 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (304, 3, 1, 1, NULL, 'cancelled', datetime('now', '-40 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (305, 3, 16, 1, NULL, 'waiting', datetime('now', '-21 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (306, 3, 9, 2, NULL, 'waiting', datetime('now', '-3 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (307, 4, 1, 1, NULL, 'waiting', datetime('now', '-9 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (308, 4, 3, 1, NULL, 'waiting', datetime('now', '-8 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (309, 4, 2, 1, NULL, 'waiting', datetime('now', '-2 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (310, 3, 10, 3, NULL, 'waiting', datetime('now', '-18 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (311, 3, 11, 3, 125, 'in_transit', datetime('now', '-25 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (312, 5, 8, 1, 108, 'ready', datetime('now', '-20 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (313, 6, 8, 1, 109, 'ready', datetime('now', '-20 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (314, 7, 8, 1, 110, 'ready', datetime('now', '-20 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (315, 8, 8, 1, NULL, 'waiting', datetime('now', '-20 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (316, 1, 15, 1, 124, 'ready', datetime('now', '-6 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (317, 2, 7, 1, NULL, 'waiting', datetime('now', '-4 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (318, 2, 12, 1, NULL, 'waiting', datetime('now', '-2 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (319, 11, 5, 2, 115, 'ready', datetime('now', '-9 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (320, 12, 6, 2, NULL, 'waiting', datetime('now', '-7 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (321, 13, 1, 2, 118, 'ready', datetime('now', '-11 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (322, 14, 10, 2, NULL, 'waiting', datetime('now', '-5 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (323, 13, 11, 2, 118, 'collected', datetime('now', '-60 days'));
INSERT INTO holds (id, title_id, reader_id, branch_id, copy_id, status, placed_at) VALUES (324, 12, 18, 2, NULL, 'cancelled', datetime('now', '-33 days'));

-- One copy is on its way, one has arrived.
INSERT INTO transfers (id, copy_id, from_branch_id, to_branch_id, hold_id, status, sent_at, arrived_at) VALUES (601, 102, 1, 2, NULL, 'arrived', datetime('now', '-45 days'), datetime('now', '-44 days'));
INSERT INTO transfers (id, copy_id, from_branch_id, to_branch_id, hold_id, status, sent_at, arrived_at) VALUES (602, 125, 1, 3, 311, 'sent', datetime('now', '-1 days'), NULL);

-- Fines: open, partly paid, paid and waived. What is owed is what is left of the open ones.
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (401, 4, 216, 'lost', 12.50, 'Dragons of the Allotment, not found', 'open', NULL, datetime('now', '-370 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (402, 9, 221, 'overdue', 5.00, '32 days late', 'open', NULL, datetime('now', '-110 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (403, 9, 223, 'damage', 5.00, 'Two pieces missing', 'open', NULL, datetime('now', '-50 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (404, 12, 220, 'damage', 15.00, 'Disc scratched', 'open', NULL, datetime('now', '-60 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (405, 7, 222, 'lost', 22.00, 'Maps of Moving Water, not found', 'waived', 'Found behind the shelf of the library itself.', datetime('now', '-1040 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (406, 14, 215, 'overdue', 5.00, 'Third reminder', 'open', NULL, datetime('now', '-40 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (407, 14, 224, 'damage', 7.40, 'Coffee on the cover', 'open', NULL, datetime('now', '-290 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (408, 10, 217, 'overdue', 2.60, '13 days late', 'open', NULL, datetime('now', '-186 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (409, 10, 210, 'overdue', 5.00, 'Third reminder', 'open', NULL, datetime('now', '-20 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (410, 5, 218, 'overdue', 0.45, '9 days late', 'paid', NULL, datetime('now', '-110 days'));
INSERT INTO fines (id, reader_id, loan_id, kind, amount, reason, status, waived_because, created_at) VALUES (411, 13, 219, 'overdue', 1.80, '9 days late', 'paid', NULL, datetime('now', '-223 days'));

-- Payments on fines.
INSERT INTO payments (id, fine_id, amount, method, paid_at) VALUES (501, 411, 1.80, 'cash', datetime('now', '-220 days'));
INSERT INTO payments (id, fine_id, amount, method, paid_at) VALUES (502, 410, 0.45, 'cash', datetime('now', '-110 days'));
INSERT INTO payments (id, fine_id, amount, method, paid_at) VALUES (503, 404, 5.00, 'card', datetime('now', '-60 days'));
INSERT INTO payments (id, fine_id, amount, method, paid_at) VALUES (504, 404, 4.00, 'card', datetime('now', '-30 days'));
