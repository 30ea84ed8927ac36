package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/store/bolt"
)

// salvageReport is what salvage --json prints.
type salvageReport struct {
	File    string         `json:"file"`
	Tables  []salvageTable `json:"tables"`
	Lost    []string       `json:"lost"`
	Losses  uint64         `json:"losses"`
	FromLog uint64         `json:"from_log"`
	Mended  []string       `json:"mended,omitempty"`
	Since   uint64         `json:"journal_begins_at,omitempty"`
	Anew    uint64         `json:"journal_begins_anew_at,omitempty"`
	Why     string         `json:"journal_lost,omitempty"`
	Left    []string       `json:"findings"`
}

type salvageTable struct {
	Name    string `json:"name"`
	Kept    uint64 `json:"kept"`
	Damaged uint64 `json:"damaged"`
	Backup  uint64 `json:"from_backup"`
	Unread  uint64 `json:"unreadable_parts"`
}

func (a *app) salvageCommand() *cobra.Command {
	var backup string
	cmd := &cobra.Command{
		Use:   "salvage FROM TO",
		Short: "Make a new database of what can be read of a damaged one",
		Long: `Make a new database file, TO, of what can be read of the damaged file FROM and of the
log beside it; what is lost is taken from a backup, if one is given, as it was
then. No daemon may have FROM open. FROM and its log are not changed: keep them.

It prints what each table had and what is lost, the first hundred of it. Records
whose checksum is wrong are set aside: orreryd quarantine shows them. The indexes
are made anew from the records, and what lost pipelines leave behind is removed. The journal is copied: from the first epoch on that
is whole. If a record or the end of the journal is lost it begins anew: orreryd
replay --verify cannot look behind that. The old one stays beside FROM.`,
		Example: "  orreryd salvage orrery.db new.db\n  orreryd salvage orrery.db new.db --backup last.db",
		Args:    fromAndTo,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notURL("--backup", backup); err != nil {
				return err
			}
			if _, err := os.Lstat(args[1]); err == nil {
				return fmt.Errorf("%s is there already: name a new file", args[1])
			}
			found, err := bolt.Salvage(cmd.Context(), args[0], args[1], bolt.SalvageOptions{
				Backup: backup, Index: indexOf, Mend: mendPipelines, Now: effects.TimeOf(time.Now()),
			})
			if err != nil {
				return err
			}
			return a.show(reportOf(args[1], &found), sayOf(args[0], args[1], &found))
		},
	}
	cmd.Flags().StringVar(&backup, "backup", "", "backup `file` from which what is lost is taken")
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

func fromAndTo(cmd *cobra.Command, args []string) error {
	if len(args) != 2 || args[0] == "" || args[1] == "" {
		return usagef("want a damaged file and a new one, as in: %s FROM TO", cmd.CommandPath())
	}
	return cmp.Or(notURL("FROM", args[0]), notURL("TO", args[1]))
}

// indexOf tells when a record is due, and where it is listed.
func indexOf(kind effects.Kind, _ uuid.UUID, state []byte) (effects.Time, []effects.Term, error) {
	s, err := core.DecodeState(kind, state)
	if err != nil {
		return 0, nil, err
	}
	return s.Deadline(), s.Terms(), nil
}

func reportOf(to string, found *bolt.Salvaged) salvageReport {
	r := salvageReport{File: to, Lost: found.Lost, Losses: found.Losses, FromLog: found.Log, Mended: found.Mended, Since: found.Since, Anew: found.Anew, Why: found.Why}
	for _, t := range found.Tables {
		r.Tables = append(r.Tables, salvageTable(t))
	}
	for _, f := range found.Left {
		r.Left = append(r.Left, f.String())
	}
	return r
}

// sayOf is the report for people.
func sayOf(from, to string, found *bolt.Salvaged) string {
	var b strings.Builder
	for _, t := range found.Tables {
		fmt.Fprintf(&b, "%s: %d kept", text.Clean(t.Name), t.Kept)
		for _, n := range []struct {
			n    uint64
			what string
		}{{t.Backup, "from the backup"}, {t.Damaged, "damaged"}, {t.Unread, "parts that cannot be read"}} {
			if n.n > 0 {
				fmt.Fprintf(&b, ", %d %s", n.n, n.what)
			}
		}
		b.WriteByte('\n')
	}
	if found.Log > 0 {
		fmt.Fprintf(&b, "%d changes came from the log\n", found.Log)
	}
	for _, l := range found.Lost {
		fmt.Fprintf(&b, "lost: %s\n", text.Clean(l))
	}
	if more := found.Losses - uint64(len(found.Lost)); more > 0 {
		fmt.Fprintf(&b, "lost: and %d more\n", more)
	}
	for _, m := range found.Mended {
		fmt.Fprintf(&b, "mended: %s\n", text.Clean(m))
	}
	if more := found.Mends - uint64(len(found.Mended)); more > 0 {
		fmt.Fprintf(&b, "mended: and %d more\n", more)
	}
	switch {
	case found.Anew > 0:
		fmt.Fprintf(&b, "the journal begins anew with batch %d: %s\n", found.Anew, text.Clean(found.Why))
	case found.Since > 0:
		fmt.Fprintf(&b, "the journal begins with batch %d: %s\n", found.Since, text.Clean(found.Why))
	}
	for _, f := range found.Left {
		fmt.Fprintf(&b, "still wrong: %s\n", text.Clean(f.String()))
	}
	if found.Losses == 0 {
		fmt.Fprintf(&b, "nothing is lost: %s is %s anew\n", text.Clean(to), text.Clean(from))
	} else {
		fmt.Fprintf(&b, "%s has what could be read of %s, which stays as it is\n", text.Clean(to), text.Clean(from))
	}
	return b.String()
}
