package runbook

import (
	"fmt"
	"strings"
	"unicode"
)

// maxLabel bounds a line of a label, in characters.
const maxLabel = 60

// plainLabel gives a line of a label without what no picture can show.
func plainLabel(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > maxLabel {
		return string(runes[:maxLabel-1]) + "…"
	}
	return string(runes)
}

// mermaidText quotes a label. Mermaid reads directives within quotes too, and knows codes
// of characters only: so whatever could mean something to it is written as a code.
func mermaidText(lines ...string) string {
	return quoted(lines, "<br/>", func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" .,:/_-+=!?'@$", r) {
				fmt.Fprintf(&b, "#%d;", r)
			} else {
				b.WriteRune(r)
			}
		}
		return b.String()
	})
}

// dotText quotes a label for Graphviz.
func dotText(lines ...string) string {
	return quoted(lines, `\n`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace)
}

// quoted joins the lines of a label, each escaped, and puts them in quotes.
func quoted(lines []string, between string, escape func(string) string) string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, escape(plainLabel(l)))
	}
	return `"` + strings.Join(out, between) + `"`
}

// mermaidShapes are what stands around a label.
var mermaidShapes = map[shape][2]string{
	shapeEntry: {"([", "])"}, shapeDone: {"([", "])"}, shapeFailure: {"([", "])"},
	shapePhase: {"[", "]"}, shapeOuter: {"[[", "]]"}, shapeWaiting: {"{{", "}}"}, shapeDecision: {"{", "}"},
	shapeApproach: {"(", ")"}, shapeQueue: {"[(", ")]"}, shapeWorker: {"[/", "\\]"}, shapeSubscriber: {">", "]"},
}

var mermaidLines = map[line]string{lineNext: "-->", lineFailure: "-.->", lineOther: "==>"}

// eachNode writes the nodes by group, and then the nodes that are in no group.
func (g *graph) eachNode(node func(indent string, n int), open func(i int, title string), end func()) {
	grouped := map[int]bool{}
	for i, gr := range g.groups {
		open(i, gr.title)
		for _, n := range gr.nodes {
			node("    ", n)
			grouped[n] = true
		}
		end()
	}
	for n := range g.nodes {
		if !grouped[n] {
			node("  ", n)
		}
	}
}

func (g *graph) mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	node := func(indent string, n int) {
		s := mermaidShapes[g.nodes[n].shape]
		fmt.Fprintf(&b, "%sn%d%s%s%s\n", indent, n, s[0], mermaidText(g.nodes[n].lines...), s[1])
	}
	g.eachNode(node, func(i int, title string) { fmt.Fprintf(&b, "  subgraph g%d[%s]\n", i, mermaidText(title)) }, func() { b.WriteString("  end\n") })
	for _, e := range g.edges {
		label := ""
		if e.label != "" {
			label = "|" + mermaidText(e.label) + "|"
		}
		fmt.Fprintf(&b, "  n%d %s%s n%d\n", e.from, mermaidLines[e.line], label, e.to)
	}
	return b.String()
}

var dotShapes = map[shape]string{
	shapeEntry: "shape=oval, style=bold", shapeDone: "shape=oval", shapeFailure: "shape=oval, style=dashed",
	shapePhase: "shape=box", shapeOuter: "shape=box, peripheries=2", shapeWaiting: "shape=hexagon", shapeDecision: "shape=diamond",
	shapeApproach: "shape=box, style=rounded", shapeQueue: "shape=cylinder", shapeWorker: "shape=trapezium", shapeSubscriber: "shape=cds",
}

var dotLines = map[line]string{lineNext: "", lineFailure: "style=dashed", lineOther: "style=bold"}

func (g *graph) dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  compound=true;\n  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n", dotText(g.title))
	node := func(indent string, n int) {
		fmt.Fprintf(&b, "%sn%d [label=%s, %s];\n", indent, n, dotText(g.nodes[n].lines...), dotShapes[g.nodes[n].shape])
	}
	g.eachNode(node, func(i int, title string) {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", i, dotText(title))
	}, func() { b.WriteString("  }\n") })
	for _, e := range g.edges {
		var attributes []string
		if e.label != "" {
			attributes = append(attributes, "label="+dotText(e.label))
		}
		if style := dotLines[e.line]; style != "" {
			attributes = append(attributes, style)
		}
		fmt.Fprintf(&b, "  n%d -> n%d", e.from, e.to)
		if len(attributes) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(attributes, ", "))
		}
		b.WriteString(";\n")
	}
	b.WriteString("}\n")
	return b.String()
}
