-- The forum of `porpoise demo`: users who write posts in topics.
CREATE DATABASE forum;
USE forum;
CREATE TABLE user (
  id INT PRIMARY KEY AUTO_INCREMENT,
  name VARCHAR(40) NOT NULL UNIQUE,
  city VARCHAR(40) NOT NULL,
  joined DATE NOT NULL
);
CREATE TABLE topic (
  id INT PRIMARY KEY AUTO_INCREMENT,
  title VARCHAR(80) NOT NULL UNIQUE
);
CREATE TABLE post (
  id INT PRIMARY KEY AUTO_INCREMENT,
  topic INT NOT NULL,
  author INT NOT NULL,
  written DATETIME NOT NULL,
  message VARCHAR(200) NOT NULL CHECK (message <> ''),
  KEY by_author (author, written),
  CONSTRAINT post_topic FOREIGN KEY (topic) REFERENCES topic (id),
  CONSTRAINT post_author FOREIGN KEY (author) REFERENCES user (id) ON DELETE CASCADE
);
INSERT INTO topic (title) VALUES ('engines'), ('compilers'), ('tides'), ('lighthouses');
INSERT INTO user (name, city, joined) VALUES
  ('Ada', 'London', '2024-01-10'), ('Grace', 'New York', '2024-02-09'), ('Edsger', 'Rotterdam', '2024-03-11'),
  ('Barbara', 'Los Angeles', '2024-04-07'), ('Tony', 'Oxford', '2024-05-11'), ('Zoë', 'Utrecht', '2024-06-30');
INSERT INTO post (topic, author, written, message)
  WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 600)
  SELECT n % 4 + 1, n * n % 6 + 1, '2025-01-01' + INTERVAL n * 397 MINUTE,
    CONCAT(ELT(n % 5 + 1, 'Has anyone measured', 'I doubt', 'Here is a proof of', 'Nobody expects', 'A note on'), ' number ', n)
  FROM n;
ALTER TABLE user MEMCACHED PREFIX 'user:';
ALTER TABLE post MEMCACHED PREFIX 'post:';
