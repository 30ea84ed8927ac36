package importing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCommandLinesAreTakenApart(t *testing.T) {
	for line, want := range map[string]string{
		`a b  c`:                          `a b c`,
		`cd /x && ./y "z w" || echo 'no'`: `cd /x && | ./y z w || | echo no`,
		`A=1 B= c d=e`:                    `c d=e`,
		`a >f 2>&1 </dev/null | b >> g`:   `a | | b`,
		`a 2>f b`:                         `a b`,
		`if [ -x a ]; then b; fi`:         `[ -x a ] ; | b ;`,
		`{ a; }; (b; c)`:                  `a ; | b ; | c )`,
		"a `b c` $(d (e) f) \"$(g)\" \\h": "a `b c` $(d (e) f) $(g) h",
		`a & b`:                           `a & | b`,
		`a &>f; b`:                        `a ; | b`,
		`a # b`:                           `a`,
		`a#b`:                             `a#b`,
		`"unclosed`:                       `unclosed`,
		`''`:                              ``,
		`"if" x`:                          `if x`,
		`for i in 1 2; do echo $i; done`:  `i in 1 2 ; | echo $i ;`,
		`SERVICE_MODE=1 /sbin/e2scrub -A`: `/sbin/e2scrub -A`,
		``:                                ``,
		`a|`:                              `a |`,
		`\`:                               ``,
		"a `b":                            "a `b",
		`a>f b<g`:                         `a b`,
		`a >`:                             `a`,
		`a $(b`:                           `a $(b`,
		`A-B=1 c`:                         `A-B=1 c`,
		`=1 c`:                            `=1 c`,
		`a "b\"c"`:                        `a b"c`,
	} {
		var parts []string
		for _, s := range simples(line) {
			parts = append(parts, strings.TrimSpace(strings.Join(s.words, " ")+" "+s.end))
		}
		assert.Equal(t, want, strings.Join(parts, " | "), line)
	}
}

func TestTheNameOfALineIsThatOfWhatItRuns(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/local/bin/backup --all":                            "backup all",
		"cd /srv && ./run.sh now":                                "run now",
		"test -x /usr/sbin/anacron || run-parts /etc/cron.daily": "run-parts cron.daily",
		"sudo -u www-data php -d memory_limit=1G /srv/cron.php":  "cron srv",
		"flock -n /run/a.lock /opt/sync":                         "sync opt",
		"flock -w 10 /run/a.lock -c '/opt/sync x'":               "sync x",
		"bash -lc 'cd /srv; rake db:trim'":                       "rake db-trim",
		"timeout 600 nice -n 19 /usr/bin/borg create":            "borg create",
		"/usr/bin/env python3 -m reports.daily":                  "reports.daily",
		"java -Xmx1g -jar /opt/app/tool.jar run":                 "tool run",
		"perl -e 'print 1'; /opt/next":                           "next opt",
		"perl -e 'print 1'":                                      "perl print-1",
		"date":                                                   "date",
		"sleep 5":                                                "sleep 5",
		"$HOME/bin/daily.job":                                    "daily.job",
		"~/bin/x":                                                "x",
		"[ -d /srv ] && find /srv -name '*.tmp' -delete":         "find tmp",
		"'' ":            "line",
		"nice":           "nice",
		"env A=b /bin/c": "c",
	} {
		program, detail := called(line)
		assert.Equal(t, want, strings.TrimSpace(program+" "+detail), line)
	}
}
