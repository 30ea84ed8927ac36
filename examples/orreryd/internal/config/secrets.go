package config

import (
	"errors"
	"os"
	"sync"
)

// variables are the environment variables that secrets were read from.
var variables struct {
	sync.Mutex
	read map[string]string // the values, by the names
}

// LookupSecretEnv reads a secret from the environment, or, after [ForgetSecretEnv], what
// was read from there before. It is safe for concurrent use.
func LookupSecretEnv(name string) (string, bool) {
	variables.Lock()
	defer variables.Unlock()
	v, ok := os.LookupEnv(name)
	if !ok {
		v, ok = variables.read[name]
		return v, ok
	}
	if variables.read == nil {
		variables.read = map[string]string{}
	}
	variables.read[name] = v
	return v, true
}

// clientToken is the variable of the command line's token: the daemon needs none.
const clientToken = "ORRERY_TOKEN" //nolint:gosec // the name of a variable

// databaseVariable is that of the database's URL, which may have a password in it. The variables of libpq stay, since they are read
// whenever a connection is made.
const databaseVariable = "ORRERY_DATABASE"

// ForgetSecretEnv takes the variables that secrets were read from out of this process's
// environment: no program that it starts inherits them, whatever inherit_env says. (The
// kernel keeps the block with which the process began: package guard hides that.)
func ForgetSecretEnv() error {
	variables.Lock()
	defer variables.Unlock()
	for name := range variables.read {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return errors.Join(os.Unsetenv(clientToken), os.Unsetenv(databaseVariable))
}
