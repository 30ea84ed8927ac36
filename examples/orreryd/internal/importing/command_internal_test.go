package importing

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// crontab(5): percent signs, and backslashes before them.
func TestACommandIsTakenApartAtItsPercentSigns(t *testing.T) {
	for line, want := range map[string][2]string{
		`date`:           {`date`, ""},
		`date +\%F`:      {`date +%F`, ""},
		`cat%one%two`:    {`cat`, "one\ntwo\n"},
		`cat%one%`:       {`cat`, "one\n"},
		`cat%`:           {`cat`, ""},
		`cat%%`:          {`cat`, "\n"},
		`cat%a\%b`:       {`cat`, "a%b\n"},
		`cat%a\b\\c`:     {`cat`, `a\b\\c` + "\n"},
		`cat%a\`:         {`cat`, `a\` + "\n"},
		`cat%\\%`:        {`cat`, `\%` + "\n"},
		`echo \a\\b\%c\`: {`echo \a\\b%c\`, ""},
		`echo \\%in`:     {`echo \\`, "in\n"},
	} {
		command, stdin := splitPercent(line)
		assert.Equal(t, want, [2]string{command, stdin}, line)
	}
}
