package confine

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// User is who a program runs as.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"` // beside GID
	Name   string   `json:"name,omitempty"`   // for USER and LOGNAME; empty: the system knows no such user
	Home   string   `json:"home,omitempty"`
}

// LookupUser reads "user" or "user:group"; each is a name that the system knows, or a
// number. Without a group it is the user's own, with its other groups; a user that is only a
// number needs one.
func LookupUser(spec string) (*User, error) {
	name, group, given := strings.Cut(spec, ":")
	u, err := user.Lookup(name)
	if _, numeric := errors.AsType[user.UnknownUserError](err); numeric || err != nil {
		u, err = byNumber(name)
	}
	if err != nil {
		return nil, err
	}
	out := &User{Name: u.Username, Home: u.HomeDir}
	if out.UID, err = number("user", u.Uid); err != nil {
		return nil, err
	}
	if given {
		out.GID, err = groupID(group)
		return out, err
	}
	if u.Gid == "" {
		return nil, fmt.Errorf("user %q is not known here: name its group, too: %q", name, name+":GROUP")
	}
	if out.GID, err = number("group", u.Gid); err != nil {
		return nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %q: %w", name, err)
	}
	for _, id := range ids {
		g, err := number("group", id)
		if err != nil {
			return nil, err
		}
		out.Groups = append(out.Groups, g)
	}
	return out, nil
}

// byNumber finds a user by its number, which need not be known.
func byNumber(name string) (*user.User, error) {
	if _, err := strconv.ParseUint(name, 10, 31); err != nil {
		return nil, fmt.Errorf("there is no user %q here: want the name of a user or a number, and optionally :GROUP", name)
	}
	if u, err := user.LookupId(name); err == nil {
		return u, nil
	}
	return &user.User{Uid: name}, nil
}

func groupID(group string) (uint32, error) {
	if g, err := user.LookupGroup(group); err == nil {
		return number("group", g.Gid)
	}
	if _, err := strconv.ParseUint(group, 10, 31); err != nil {
		return 0, fmt.Errorf("there is no group %q here: want the name of a group or a number", group)
	}
	return number("group", group)
}

func number(what, id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no number", what, id)
	}
	return uint32(n), nil
}

// Environ gives the variables that name the user, of the form NAME=value.
func (u *User) Environ() (env []string) {
	if u.Name != "" {
		env = append(env, "USER="+u.Name, "LOGNAME="+u.Name)
	}
	if u.Home != "" {
		env = append(env, "HOME="+u.Home)
	}
	return env
}
