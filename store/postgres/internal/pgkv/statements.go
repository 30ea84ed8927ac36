package pgkv

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are those of one schema, whose name stands for each @.
type statements struct {
	look        string
	claim       string
	renew       string
	release     string
	regain      string
	halt        string
	haltPlain   string
	told        string
	newPart     string
	commit      string
	commitPlain string
	fence       string
	finish      string
	trim        string
	upsert      string
	remove      string
	dropTable   string
	newTable    string
	tables      string
	log         string
	up          string
	upTo        string
	down        string
	downTo      string
	many        string
	warmFirst   string
	warmLast    string
	instance    string
	renewed     string
	together    string
	instances   string
	leave       string
	partitions  string
	drain       string
	part        string
	rebalance   string
	acceptLoss  string

	layout, setLayout, lockMeta, lockParts, dropParts string

	remain, report, depart, dismiss, formers, allFormers, reported, stopFormer, taken string

	emptyEntries, emptyLog, emptyTables, emptied, filled string
}

// owns begins statements about what stands beside a partition, which its owner alone may change. The lock makes a claim that comes meanwhile wait, and has
// the statement wait for one that is under way: without it the fence would be what was so when the statement began.
const owns = `WITH own AS (SELECT part FROM @.partitions WHERE part = $1 AND session = $2 AND session <> '' FOR SHARE)`

// halts stops a partition for a loss.
const halts = `UPDATE @.partitions SET halted = $2, token = token + 1, beat = beat + 1, session = '', owner = '', address = ''
				WHERE part = $1 AND last < $3 AND halted <> $4`

const columns = "part, token, last, checkpoint, target, beat, session, owner, address, halted"

func newStatements(schema string) *statements {
	s := &statements{
		look:       `SELECT ` + columns + ` FROM @.partitions WHERE part = $1`,
		partitions: `SELECT ` + columns + ` FROM @.partitions ORDER BY part`,
		// Whoever divides the database has the row of meta locked, and one that waits for it sees what it has become.
		newPart: `INSERT INTO @.partitions (part) SELECT $1::int FROM (SELECT partitions FROM @.meta WHERE one = 1 FOR SHARE) AS m
			WHERE m.partitions IS NULL OR m.partitions > $1::int ON CONFLICT (part) DO NOTHING`,
		layout:    `SELECT partitions, rule FROM @.meta WHERE one = 1 AND partitions IS NOT NULL`,
		setLayout: `UPDATE @.meta SET partitions = $1, rule = $2, least = greatest(least, $3::int) WHERE one = 1`,
		lockMeta:  `SELECT one FROM @.meta WHERE one = 1 FOR UPDATE`,
		// Whoever claims one at the same time waits, or was seen.
		lockParts: `SELECT part, token FROM @.partitions ORDER BY part FOR UPDATE`,
		dropParts: `DELETE FROM @.partitions WHERE token = 0 AND part >= $1`,
		// It gives the session before, too.
		claim: `WITH was AS (SELECT part AS of, session AS before FROM @.partitions
				WHERE part = $1 AND ($5 OR token = $6) AND ($5 OR session = '' OR beat = $7) AND ($8 OR halted = '') FOR UPDATE)
			UPDATE @.partitions SET token = token + 1, beat = beat + 1, session = $2, owner = $3, address = $4, halted = $9
			FROM was WHERE part = was.of RETURNING ` + columns + `, was.before`,
		renew:   `UPDATE @.partitions SET beat = beat + 1 WHERE part = $1 AND session = $2 RETURNING ` + columns,
		release: `UPDATE @.partitions SET beat = beat + 1, session = '', owner = '', address = '' WHERE part = $1 AND session = $2`,
		regain:  `UPDATE @.partitions SET token = token + 1, beat = beat + 1 WHERE part = $1 AND session = $2 RETURNING ` + columns,
		// Whoever owns it is fenced: it goes on from what has lost commits. One that is being filled ($4) is another database's since. It notes
		// in the same step of whose commits ($5) that tells, up to which ($6).
		halt: `WITH stopped AS (` + halts + ` RETURNING part)
			INSERT INTO @.told (part, session, last) SELECT stopped.part, x.session, x.last FROM stopped, unnest($5::text[], $6::bigint[]) AS x (session, last)
			ON CONFLICT (part, session) DO UPDATE SET last = greatest(@.told.last, excluded.last)`,
		haltPlain:  halts,
		told:       `SELECT EXISTS (SELECT FROM @.told WHERE part = $1 AND session = $2 AND last >= $3)`,
		acceptLoss: `UPDATE @.partitions SET halted = '', beat = beat + 1 WHERE part = $1 AND halted = $2 AND halted NOT IN ('', $3)`,
		// One statement, so that the row is locked only once the server has all of the frames. By its place ($9) the row's newest
		// version is found at once; by the index all those are walked through that some transaction may still see. See place.go.
		commit: `WITH fence AS (UPDATE @.partitions SET last = $4, beat = beat + 1 WHERE part = $1 AND token = $2 AND last = $3 AND checkpoint >= $7 AND session = $8
				AND ($9::text = '` + nowhere + `' OR ctid = $9::text::tid) RETURNING part, ctid),
			written AS (INSERT INTO @.log (part, n, frame) SELECT fence.part, x.n, x.frame FROM fence, unnest($5::bigint[], $6::bytea[]) AS x (n, frame))
			SELECT ctid::text FROM fence`,
		// The same for a database whose rows have no such place.
		commitPlain: `WITH fence AS (UPDATE @.partitions SET last = $4, beat = beat + 1 WHERE part = $1 AND token = $2 AND last = $3 AND checkpoint >= $7 AND session = $8 RETURNING part),
			written AS (INSERT INTO @.log (part, n, frame) SELECT fence.part, x.n, x.frame FROM fence, unnest($5::bigint[], $6::bytea[]) AS x (n, frame))
			SELECT '` + nowhere + `' FROM fence`,
		// Each finds all that it builds upon: the commits, the checkpoint and the step before it.
		fence: `UPDATE @.partitions SET target = $3, steps = steps + 1, beat = beat + 1
			WHERE part = $1 AND session = $2 AND last >= $3 AND checkpoint >= $4 AND ($5 = 0 OR steps = $5) RETURNING steps`,
		finish: `UPDATE @.partitions SET target = $3, checkpoint = $3, steps = steps + 1, beat = beat + 1
			WHERE part = $1 AND session = $2 AND last >= $3 AND checkpoint >= $4 AND ($5 = 0 OR steps = $5) RETURNING steps`,
		// Those up to the checkpoint before are gone, but the index may still lead to them.
		trim: `DELETE FROM @.log WHERE part = $1 AND n > $2 AND n <= $3`,
		upsert: `INSERT INTO @.entries (part, tab, k, v) SELECT $1, x.tab, x.k, x.v FROM unnest($2::int[], $3::bytea[], $4::bytea[]) AS x (tab, k, v)
			ON CONFLICT (part, tab, k) DO UPDATE SET v = excluded.v`,
		remove: `DELETE FROM @.entries e USING unnest($2::int[], $3::bytea[]) AS x (tab, k) WHERE e.part = $1 AND e.tab = x.tab AND e.k = x.k`,
		// By range: whether the planner knows the table or not, it has but the index to go by.
		dropTable: `DELETE FROM @.entries WHERE part = $1 AND tab = $2 AND k <= coalesce(
			(SELECT k FROM @.entries WHERE part = $1 AND tab = $2 ORDER BY k OFFSET $3 - 1 LIMIT 1),
			(SELECT k FROM @.entries WHERE part = $1 AND tab = $2 ORDER BY k DESC LIMIT 1))`,
		newTable: `INSERT INTO @.tables (part, id, name) VALUES ($1, $2, $3)
			ON CONFLICT (part, id) DO UPDATE SET name = excluded.name WHERE @.tables.name = excluded.name`,
		tables: `SELECT id, name FROM @.tables WHERE part = $1`,
		log:    `SELECT n, frame FROM @.log WHERE part = $1 AND n > $2 ORDER BY n`,
		up:     `SELECT k, v FROM @.entries WHERE part = $1 AND tab = $2 AND k >= $3 ORDER BY k LIMIT $4`,
		upTo:   `SELECT k, v FROM @.entries WHERE part = $1 AND tab = $2 AND k >= $3 AND k < $5 ORDER BY k LIMIT $4`,
		down:   `SELECT k, v FROM @.entries WHERE part = $1 AND tab = $2 AND k >= $3 ORDER BY k DESC LIMIT $4`,
		downTo: `SELECT k, v FROM @.entries WHERE part = $1 AND tab = $2 AND k >= $3 AND k < $5 ORDER BY k DESC LIMIT $4`,
		many: `SELECT q.i, e.k, e.v FROM unnest($2::int[], $3::bytea[]) WITH ORDINALITY AS q (tab, k, i)
			LEFT JOIN LATERAL (SELECT x.k, x.v FROM @.entries x WHERE x.part = $1 AND x.tab = q.tab AND x.k >= q.k ORDER BY x.k LIMIT 1) e ON true`,
		warmFirst: `SELECT t.id, e.k, e.v FROM @.tables t
			CROSS JOIN LATERAL (SELECT x.k, x.v FROM @.entries x WHERE x.part = $1 AND x.tab = t.id ORDER BY x.k LIMIT $2) e WHERE t.part = $1`,
		warmLast: `SELECT t.id, e.k, e.v FROM @.tables t
			CROSS JOIN LATERAL (SELECT x.k, x.v FROM @.entries x WHERE x.part = $1 AND x.tab = t.id ORDER BY x.k DESC LIMIT $2) e WHERE t.part = $1`,
		instance: `INSERT INTO @.instances (name, session, address, version, able, core, beat) VALUES ($1, $2, $3, $4, $5, $6, 1)
			ON CONFLICT (name) DO UPDATE SET session = excluded.session, address = excluded.address, version = excluded.version, able = excluded.able, core = excluded.core,
			draining = @.instances.draining AND @.instances.session = excluded.session, beat = @.instances.beat + 1`,
		drain:     `UPDATE @.instances SET draining = $2 WHERE name = $1`,
		part:      `UPDATE @.instances SET draining = true WHERE name = $1 AND session = $2`,
		rebalance: `UPDATE @.instances SET rebalanced = rebalanced + 1`,
		renewed:   `UPDATE @.instances SET beat = beat + 1 WHERE name = $1 AND session = $2`,
		// It waits for no lock, since it would hold others meanwhile, which commits wait for. The instance is row -1, and
		// partitions that somebody has locked are rows -2.
		together: `WITH own AS (SELECT x.part, x.session FROM unnest($3::int[], $4::text[]) AS x (part, session)),
			free AS (SELECT p.part FROM @.partitions p JOIN own ON p.part = own.part AND p.session = own.session ORDER BY p.part FOR UPDATE OF p SKIP LOCKED),
			moved AS (UPDATE @.partitions p SET beat = p.beat + 1 FROM free WHERE p.part = free.part
				RETURNING p.part, p.token, p.last, p.checkpoint, p.target, p.beat, p.session, p.owner, p.address, p.halted),
			self AS (SELECT name FROM @.instances WHERE name = $1 AND session = $2 FOR UPDATE SKIP LOCKED),
			lives AS (UPDATE @.instances i SET beat = i.beat + 1 FROM self WHERE i.name = self.name RETURNING i.beat)
			SELECT ` + columns + ` FROM moved UNION ALL SELECT -1, 0, 0, 0, 0, beat, '', '', '', '' FROM lives
			UNION ALL SELECT -2, 0, 0, 0, 0, p.beat, p.session, '', '', '' FROM @.partitions p JOIN own ON p.part = own.part AND p.session = own.session
				WHERE p.part NOT IN (SELECT part FROM free)`,
		instances:    `SELECT name, session, address, version, able, core, draining, beat, rebalanced FROM @.instances`,
		emptyEntries: `DELETE FROM @.entries WHERE part = $1 AND (tab, k) IN (SELECT tab, k FROM @.entries WHERE part = $1 LIMIT $2)`,
		emptyLog:     `DELETE FROM @.log WHERE part = $1`,
		emptyTables:  `DELETE FROM @.tables WHERE part = $1`,
		emptied:      `UPDATE @.partitions SET last = 0, checkpoint = 0, target = 0, beat = beat + 1 WHERE part = $1 AND session = $2 RETURNING ` + columns,
		filled:       `UPDATE @.partitions SET halted = '', beat = beat + 1 WHERE part = $1 AND session = $2`,
		remain: owns + `, noted AS (INSERT INTO @.formers (part, session, owner, beat, running, stops) SELECT part, $2::text, $3::text, 1, $4::bytea, ''::bytea FROM own
				ON CONFLICT (part, session) DO UPDATE SET owner = excluded.owner, beat = @.formers.beat + 1, running = excluded.running, stops = '')
			SELECT part FROM own`,
		report: `WITH is_there AS (UPDATE @.formers SET beat = beat + 1, running = $3 WHERE part = $1 AND session = $2 RETURNING stops),
			put AS (INSERT INTO @.reported (part, session, id, n, data) SELECT $1, $2, x.id, x.n, x.data
				FROM is_there, unnest($4::bytea[], $5::bigint[], $6::bytea[]) AS x (id, n, data) ON CONFLICT (part, session, id, n) DO NOTHING)
			SELECT stops FROM is_there`,
		depart:     `DELETE FROM @.formers WHERE part = $1 AND session = $2`,
		dismiss:    owns + `, gone AS (DELETE FROM @.formers f USING own WHERE f.part = own.part AND f.session = $3) SELECT part FROM own`,
		formers:    `SELECT part, session, owner, beat, running FROM @.formers WHERE part = $1`,
		allFormers: `SELECT part, session, owner, beat, running FROM @.formers`,
		reported:   `SELECT session, id, n, data FROM @.reported WHERE part = $1 LIMIT $2`,
		stopFormer: owns + `, said AS (UPDATE @.formers f SET stops = $4 FROM own WHERE f.part = own.part AND f.session = $3)
			SELECT part FROM own`,
		taken: owns + `, gone AS (DELETE FROM @.reported r USING own, unnest($3::text[], $4::bytea[], $5::bigint[]) AS x (session, id, n)
				WHERE r.part = own.part AND r.session = x.session AND r.id = x.id AND r.n = x.n)
			SELECT part FROM own`,
		leave: `DELETE FROM @.instances WHERE name = $1 AND session = $2`,
	}
	name := pgx.Identifier{schema}.Sanitize()
	for _, sql := range s.all() {
		*sql = strings.ReplaceAll(*sql, "@", name)
	}
	return s
}

func (s *statements) all() []*string {
	return []*string{
		&s.look, &s.claim, &s.renew, &s.release, &s.regain, &s.halt, &s.haltPlain, &s.told, &s.newPart, &s.commit, &s.commitPlain,
		&s.fence, &s.finish, &s.trim, &s.upsert, &s.remove, &s.dropTable, &s.newTable, &s.tables,
		&s.log, &s.up, &s.upTo, &s.down, &s.downTo, &s.many, &s.warmFirst, &s.warmLast,
		&s.emptyEntries, &s.emptyLog, &s.emptyTables, &s.emptied, &s.filled,
		&s.instance, &s.renewed, &s.together, &s.instances, &s.leave, &s.partitions,
		&s.drain, &s.part, &s.rebalance, &s.acceptLoss, &s.layout, &s.setLayout, &s.lockMeta, &s.lockParts, &s.dropParts,
		&s.remain, &s.report, &s.depart, &s.dismiss, &s.formers, &s.allFormers, &s.reported, &s.stopFormer, &s.taken,
	}
}
