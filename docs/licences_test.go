package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linkedLicences may be linked into a program that is given away under our
// Apache licence; testLicences may also be used by tests, which nobody links.
var (
	linkedLicences = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC"}
	testLicences   = append(slices.Clone(linkedLicences), "MPL-2.0")
)

var spaces = regexp.MustCompile(`\s+`)

// licenceOf tells which licence a text is by sentences that stand in no other;
// empty where it is none of those that we know.
func licenceOf(text string) string {
	text = strings.ToLower(spaces.ReplaceAllString(text, " "))
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("gnu general public license"), has("gnu lesser general public license"),
		has("gnu affero general public license"), has("business source license"), has("server side public license"):
		if has("mozilla public license version 2.0") { // names the GNU licences as secondary ones
			return "MPL-2.0"
		}
		return ""
	case has("apache license") && has("version 2.0"):
		return "Apache-2.0"
	case has("mozilla public license version 2.0"):
		return "MPL-2.0"
	case has("permission is hereby granted, free of charge, to any person obtaining a copy"):
		return "MIT"
	case has("redistribution and use in source and binary forms") && has("neither the name"):
		return "BSD-3-Clause"
	case has("redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("permission to use, copy, modify, and/or distribute this software for any purpose"),
		has("permission to use, copy, modify, and distribute this software for any purpose"):
		return "ISC"
	}
	return ""
}

// licencesIn gives the known licences of a module's folder. One of several is
// enough: they are a choice.
func licencesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	named := regexp.MustCompile(`(?i)^(licen[sc]e|copying|aplv2|unlicense)`)
	var found []string
	for _, e := range entries {
		if e.IsDir() || !named.MatchString(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if l := licenceOf(string(b)); l != "" {
			found = append(found, l)
		}
	}
	return found, nil
}

// packages lists ours but for the kits for tests, whose names end in "test": no
// program links them.
func packages(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	return slices.DeleteFunc(strings.Fields(string(out)), func(p string) bool { return strings.HasSuffix(p, "test") })
}

// modules gives the folder of each module that the packages come from.
func modules(t *testing.T, args ...string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"list", "-deps", "-json=Module"}, args)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	dirs := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				Path, Dir string
				Main      bool
			}
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return dirs
		} else {
			require.NoError(t, err)
		}
		if p.Module != nil && !p.Module.Main {
			dirs[p.Module.Path] = p.Module.Dir
		}
	}
}

func TestEveryDependencyHasALicenceThatWeMayUse(t *testing.T) {
	linked := modules(t, packages(t)...)
	all := modules(t, "-test", "./...")
	require.NotEmpty(t, all)
	for path, dir := range all {
		found, err := licencesIn(dir)
		require.NoError(t, err, path)
		allowed := testLicences
		if _, isLinked := linked[path]; isLinked {
			allowed = linkedLicences
		}
		ok := slices.ContainsFunc(found, func(l string) bool { return slices.Contains(allowed, l) })
		assert.True(t, ok, "%s has the licences %v, allowed is one of %v", path, found, allowed)
	}
}

func TestLicencesAreToldApart(t *testing.T) {
	tests := map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                                   "Apache-2.0",
		"Permission is hereby granted, free of charge, to any\nperson obtaining a copy of this software": "MIT",
		"Redistribution and use in source and binary forms, with or without":                             "BSD-2-Clause",
		"Redistribution and use in source and binary forms ... Neither the name of":                      "BSD-3-Clause",
		"Mozilla Public License Version 2.0 ... GNU General Public License, Version 2.0":                 "MPL-2.0",
		"GNU GENERAL PUBLIC LICENSE Version 3":                                                           "",
		"GNU Affero General Public License, with parts under the Apache License, Version 2.0":            "",
		"Business Source License 1.1 ... Change License: Apache License, Version 2.0":                    "",
		"All rights reserved.": "",
	}
	for text, want := range tests {
		assert.Equal(t, want, licenceOf(text), text)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "COPYING"), []byte("GNU GENERAL PUBLIC LICENSE"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("Apache License Version 2.0"), 0o600))
	found, err := licencesIn(dir)
	require.NoError(t, err)
	assert.Empty(t, found)
}
