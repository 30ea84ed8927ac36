package importing

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// CrontabOptions say what a crontab does not.
type CrontabOptions struct {
	// Zone is the one in which cron reads the times: that of its machine. Empty: UTC.
	Zone string
	// Dir is the folder in which cron begins commands, the home of the user, as far as no line
	// HOME= says another one. Empty: that of the daemon's tool.
	Dir string
	// Tools are tools of the type command by the user that they run as, for crontabs with a user
	// in each line.
	Tools map[string]string
	// Now is the time from which changes of the clocks are looked for, and impossible dates.
	Now time.Time
}

// Crontab makes recurring actions of the lines of crontabs, one file of each source. If a line is wrong, nothing is
// made, and the error is [Errors].
func Crontab(sources []Source, o CrontabOptions) (Result, error) {
	zone, err := schedule.LoadZone(cmp.Or(o.Zone, "UTC"))
	if err != nil {
		return Result{}, err
	}
	o.Zone = zone.Name()
	im := &crontabs{o: o, now: effects.TimeOf(o.Now), changes: map[string][]clockChange{}}
	var read []*crontab
	var wrong Errors
	for _, s := range sources {
		if err := s.check(); err != nil {
			return Result{}, err
		}
		c := &crontab{crontabs: im, source: s, zone: zone, env: map[string]string{}}
		c.read()
		wrong = append(wrong, c.errs...)
		read = append(read, c)
	}
	if len(wrong) > 0 {
		return Result{}, wrong
	}
	return im.result(read)
}

// crontabs are the crontabs that are imported together.
type crontabs struct {
	o       CrontabOptions
	now     effects.Time
	changes map[string][]clockChange // by zone
}

// A crontab is one that is being read.
type crontab struct {
	*crontabs
	source Source
	line   int
	text   string // of the line
	errs   Errors
	notes  []Note

	zone     *schedule.Zone
	env      map[string]string // as it is set for the lines below
	jitter   string
	comment  []string // the lines of comment right above
	lines    []*cronLine
	homeless bool             // a line begins in the user's home, and nobody says which folder that is
	users    map[string][]int // the lines of each user for whom there is no tool
}

// A cronLine is a line with a command.
type cronLine struct {
	recurring
	command string
}

func (im *crontabs) result(read []*crontab) (Result, error) {
	var r Result
	var commands []string
	for _, c := range read {
		for _, l := range c.lines {
			commands = append(commands, l.command)
		}
	}
	names := nameAll(commands, map[string]bool{})
	files := map[string]bool{}
	for _, c := range read {
		r.Notes = append(r.Notes, c.notes...)
		r.Notes = append(r.Notes, c.ofUsers()...)
		if len(c.lines) == 0 {
			continue
		}
		var b bytes.Buffer
		for _, l := range c.lines {
			l.name, names = names[0], names[1:]
			if err := l.write(&b); err != nil {
				return Result{}, err
			}
			r.Made++
		}
		r.Files = append(r.Files, File{Name: unique(cmp.Or(plainName(c.source.FileName), plainName(c.source.Name), "crontab"), files) + ".toml", Text: b.Bytes()})
	}
	if r.Made > 0 {
		r.Notes = append(r.Notes, ofAll(read)...)
	}
	return r, nil
}

// ofAll are the notes on all lines.
func ofAll(read []*crontab) []Note {
	texts := []string{
		"a command is ended after an hour, which cron does not do: time_limit_seconds of the tool command in the configuration, or timeout_seconds of the input, gives it longer",
		`what a command prints is mailed by cron; here it is kept with its action (orreryd recurring history, orreryd actions show)`,
	}
	if slices.ContainsFunc(read, func(c *crontab) bool {
		return slices.ContainsFunc(c.lines, func(l *cronLine) bool { return l.inputs == nil || l.inputs.Env["PATH"] == "" })
	}) {
		texts = append(texts, "PATH is the daemon's where no line sets it; cron's is /usr/bin:/bin")
	}
	if slices.ContainsFunc(read, func(c *crontab) bool { return c.homeless }) {
		texts = append(texts, "commands begin in the folder of the daemon (base_dir of the tool command), in cron in the home of the user: --dir gives another one")
	}
	var notes []Note
	for _, text := range texts {
		notes = append(notes, Note{Source: "all lines", Text: text})
	}
	return notes
}

// ofUsers are the notes on the users of lines.
func (c *crontab) ofUsers() []Note {
	var notes []Note
	for _, user := range slices.Sorted(maps.Keys(c.users)) {
		var lines []string
		for _, n := range c.users[user] {
			lines = append(lines, strconv.Itoa(n))
		}
		what := "line " + lines[0] + " runs"
		if len(lines) > 1 {
			what = "lines " + strings.Join(lines, ", ") + " run"
		}
		notes = append(notes, Note{Source: c.source.Name, About: "user " + user, Text: fmt.Sprintf(
			"%s as the user of the daemon here; for another one configure a tool of the type command with run_as = %q, and import with --run-as %s=NAME", what, user, user)})
	}
	return notes
}

// say notes what is wrong with the line.
func (c *crontab) say(field, format string, args ...any) {
	switch n := len(c.errs); {
	case n > maxErrors:
		return
	case n == maxErrors:
		field, format, args = "", "there is more that is wrong: it is not said any more", nil
	}
	column := 1
	if i := strings.Index(c.text, strings.TrimSpace(c.text)); i > 0 {
		column += i
	}
	problem := fmt.Sprintf(format, args...)
	if c.text != "" {
		problem += fmt.Sprintf(`, in "%s"`, clip(strings.TrimSpace(c.text)))
	}
	c.errs = append(c.errs, Error{File: c.source.Name, Line: c.line, Column: column, Field: field, Problem: problem})
}

// note notes what is not the same of the line.
func (c *crontab) note(about, format string, args ...any) {
	c.notes = append(c.notes, Note{Source: c.source.Name, Line: c.line, About: about, Text: fmt.Sprintf(format, args...)})
}

// read reads all lines.
func (c *crontab) read() {
	text := strings.TrimPrefix(string(c.source.Text), "\ufeff")
	if strings.Contains(text, "\r\n") {
		c.note("", "it has the line ends of Windows, of which cron takes the carriage return for a part of the command: they are left out")
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	body, ended := strings.CutSuffix(text, "\n")
	lines := strings.Split(body, "\n")
	for i, line := range lines {
		c.line, c.text = i+1, line
		trimmed := strings.TrimLeft(line, " \t\f\v")
		switch {
		case !utf8.ValidString(line) || strings.ContainsRune(line, 0):
			c.say("", "it is no text in UTF-8: convert the file, as with iconv -f latin1 -t utf-8")
		case trimmed == "":
			c.comment = nil
		case trimmed[0] == '#':
			c.comment = append(c.comment, strings.TrimSpace(strings.TrimLeft(trimmed, "#")))
		default:
			if i == len(lines)-1 && !ended {
				c.note("", "no line feed ends the last line, which some crons leave out for that: it is taken")
			}
			if name, value, ok := environment(trimmed); ok {
				c.set(name, value)
			} else {
				c.entry(trimmed)
			}
			c.comment = nil
		}
	}
}

// environment reads a line name = value; either may stand in quotes.
func environment(line string) (name, value string, ok bool) {
	var rest string
	if quote := line[0]; quote == '"' || quote == '\'' {
		if name, rest, ok = strings.Cut(line[1:], line[:1]); !ok || strings.Contains(name, "=") {
			return "", "", false
		}
		rest = strings.TrimLeft(rest, " \t")
	} else {
		i := strings.IndexAny(line, "= \t")
		if i < 0 {
			return "", "", false
		}
		name, rest = line[:i], strings.TrimLeft(line[i:], " \t")
	}
	value, ok = strings.CutPrefix(rest, "=")
	if !ok || name == "" {
		return "", "", false
	}
	value = strings.TrimSpace(value)
	if value == "" {
		return name, "", true
	}
	if quote := value[0]; quote == '"' || quote == '\'' {
		inner, after, closed := strings.Cut(value[1:], value[:1])
		if !closed || strings.TrimSpace(after) != "" {
			return "", "", false
		}
		value = inner
	}
	return name, value, true
}

// secretName finds variables that hold secrets, as far as their names tell.
var secretName = regexp.MustCompile(`(?i)(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|^PGPASS)`)

// set is a line that sets a variable for the lines below.
func (c *crontab) set(name, value string) {
	switch name {
	case "CRON_TZ":
		z, err := schedule.LoadZone(value)
		if err != nil {
			c.say("CRON_TZ", "%s", strings.TrimPrefix(err.Error(), "timezone: "))
			return
		}
		c.zone = z
		c.note("CRON_TZ="+value, "the lines below have this time zone, as in cronie; Debian's cron does not know it, and has that of the machine")
	case "RANDOM_DELAY":
		minutes, err := strconv.Atoi(value)
		if err != nil || minutes < 0 || minutes > core.MaxJitterSeconds/60 {
			c.say("RANDOM_DELAY", "%q is no number of minutes from 0 to %d", clip(value), core.MaxJitterSeconds/60)
			return
		}
		if c.jitter = ""; minutes > 0 {
			c.jitter = fmt.Sprintf("%dm", minutes)
			c.note("RANDOM_DELAY="+value, "the lines below have a jitter of up to %s: each time a delay of its own, where cronie has one for all", c.jitter)
		}
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		if name == "MAILTO" && value != "" {
			c.note("MAILTO="+value, "nothing is mailed: what a command prints is kept with its action")
		}
	case "LOGNAME", "USER":
		c.note(name+"="+value, "it is left out, as cron does: it is the name of the user that runs the command")
	case "SHELL":
		c.env[name] = value
	default:
		if strings.HasPrefix(strings.ToUpper(name), "ORRERY_") {
			c.say(name, "variables that begin with ORRERY_ are set by the daemon: give it another name")
			return
		}
		if secretName.MatchString(name) && value != "" {
			c.note(name, "it looks like a secret: it stands in the file in clear, and in the database. Let the command read it from a file that it alone can read")
		}
		if name == "TZ" {
			c.note("TZ="+value, "the commands below get it; the times stay those of %s, as in cron", c.zone.Name())
		}
		c.env[name] = value
	}
}

// entry is a line with times and a command.
func (c *crontab) entry(line string) {
	line = strings.TrimPrefix(line, "-") // "do not log it", of cronie and SUSE
	word, rest := cutWord(line)
	var fields [5]string
	spoken := ""
	if strings.HasPrefix(word, "@") {
		spoken = word
		if word == "@reboot" {
			c.note(strings.TrimSpace(clip(c.text)), "it is left out: nothing here fires when the machine starts. Let a unit of systemd do it, or ExecStartPost of the daemon's")
			return
		}
		expr := cronWords[word]
		if expr == "" {
			c.say("time", "cron has no %q: write one of @reboot, @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, in small letters, or five fields", clip(word))
			return
		}
		copy(fields[:], strings.Fields(expr))
	} else {
		rest = line
		for i := range fields {
			if fields[i], rest = cutWord(rest); fields[i] == "" {
				c.say("", "it is neither NAME=value, with quotes that are closed, nor times with a command: want minute, hour, day of month, month, day of week, command")
				return
			}
		}
	}
	t, i, err := readTimes(fields)
	if err != nil {
		c.say(cronFieldsOf[i].name, "%s", err)
		return
	}
	if strings.HasPrefix(rest, "*") {
		c.say("command", "there is a sixth field of times: cron takes five, and no seconds or years")
		return
	}
	user := ""
	if c.source.System {
		if user, rest = cutWord(rest); strings.ContainsAny(user, `/"'$&;|<>=`) {
			c.say("user", "%q is no name of a user, which stands before the command in a system crontab: import a user's crontab with --user", clip(user))
			return
		}
	} else if first, _ := cutWord(rest); slices.Contains([]string{"root", "www-data", "nobody", "postgres"}, first) {
		c.say("command", "it begins with %q, which looks like the user of a system crontab: import it with --system, or write the command's path", first)
		return
	}
	if rest == "" {
		c.say("command", "it is missing: it stands behind the times%s", map[bool]string{true: " and the user"}[c.source.System])
		return
	}
	c.add(t, spoken, user, rest)
}

// add adds a line that is right.
func (c *crontab) add(t times, spoken, user, rest string) {
	spec := schedule.Spec{Expr: t.expr(), Zone: c.zone.Name(), Anchor: c.now}
	if t.both() {
		spec.DayMatch = schedule.DayMatchBoth
	}
	if different := t.atClockChanges(spec, c.changesIn(c.zone)); different != "" {
		c.note(clip(rest), "%s", different)
	}
	if spec.Expr = t.expr(); spoken != "" {
		spec.Expr = spoken
	}
	s, err := spec.Compile()
	if err != nil {
		c.say("time", "%s", err)
		return
	}
	if s.Impossible(c.now) {
		c.note(clip(rest), "it is left out: %s names a day that does not exist, and never fires in cron either", spec.Expr)
		return
	}
	for _, w := range s.Warnings() {
		c.note(clip(rest), "as in cron: %s", w)
	}
	l := &cronLine{recurring: recurring{
		Cron: spec.Expr, DayMatch: string(spec.DayMatch), Jitter: c.jitter, Description: c.description(),
		from: fmt.Sprintf("%s:%d: %s", c.source.Name, c.line, strings.TrimSpace(c.text)),
	}}
	if spec.Zone != "UTC" {
		l.TZ = spec.Zone
	}
	c.run(l, user, rest)
	c.lines = append(c.lines, l)
}

// run says what a line runs: its shell, as cron does.
func (c *crontab) run(l *cronLine, user, rest string) {
	command, stdin := splitPercent(rest)
	l.command = command
	if strings.Contains(command, `\\`) {
		c.note(clip(command), `crons differ about \\: some hand on one backslash; here both are kept`)
	}
	shell := cmp.Or(c.env["SHELL"], "/bin/sh")
	switch background, both := leavesBehind(command); {
	case both && !slices.Contains([]string{"bash", "zsh"}, path.Base(shell)):
		c.note(clip(command), "&> is of bash and zsh: dash, the sh of Debian, puts the command into the background, and that is ended with the shell here. Write >FILE 2>&1")
	case background:
		c.note(clip(command), "it puts something into the background (&): here that is ended with the shell. Leave the & out, so that it is waited for and seen")
	}
	argv := []string{shell, "-c", command}
	env := maps.Clone(c.env)
	delete(env, "SHELL")
	dir := cmp.Or(env["HOME"], c.o.Dir)
	if dir != "" && !path.IsAbs(dir) {
		dir = ""
	}
	c.homeless = c.homeless || dir == ""
	if dir == "" && relative(command) {
		c.note(clip(command), "it names a path from the folder in which it begins, in cron the home of the user: --dir says which that is")
	}
	l.Tool = c.o.Tools[user]
	if user != "" && l.Tool == "" {
		if c.users == nil {
			c.users = map[string][]int{}
		}
		c.users[user] = append(c.users[user], c.line)
	}
	if l.Tool == "" && len(env) == 0 && stdin == "" && dir == "" {
		l.Command = argv
		return
	}
	l.Tool = cmp.Or(l.Tool, "command")
	l.inputs = &commandInput{Argv: argv, Dir: dir, Stdin: stdin, Env: env}
}

func (im *crontabs) changesIn(zone *schedule.Zone) []clockChange {
	list, known := im.changes[zone.Name()]
	if !known {
		list = changesOf(zone, im.now)
		im.changes[zone.Name()] = list
	}
	return list
}

// description is the comment right above a line, if it is one about it, and no heading of columns, picture, or line
// that was commented out.
func (c *crontab) description() string {
	const most, longest = 3, 300
	if n := len(c.comment); n == 0 || n > most {
		return ""
	}
	for _, line := range c.comment {
		first, _ := utf8.DecodeRuneInString(line)
		lower := strings.ToLower(line)
		switch {
		case !unicode.IsLetter(first) && !unicode.IsDigit(first),
			strings.Contains(lower, "dom") && strings.Contains(lower, "mon"), strings.Contains(line, " * "):
			return ""
		}
		if _, _, ok := environment(line); ok || isTimes(line) {
			return ""
		}
	}
	if text := strings.Join(c.comment, " "); len(text) <= longest {
		return text
	}
	return ""
}

// isTimes reports whether a text begins with the five fields of a line.
func isTimes(line string) bool {
	var fields [5]string
	for i := range fields {
		fields[i], line = cutWord(line)
	}
	_, _, err := readTimes(fields)
	return err == nil && line != ""
}

// cutWord takes the first word of a line.
func cutWord(line string) (word, rest string) {
	line = strings.TrimLeft(line, " \t")
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], strings.TrimLeft(line[i:], " \t")
	}
	return line, ""
}
