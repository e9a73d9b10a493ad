package main

import "sluice/dataflow"

type validateCommand struct {
	Specs  []string `arg:"" name:"spec" help:"The specs, - for standard input."`
	Format string   `help:"Form of the report: text or json." enum:"text,json" default:"text"`
}

// jsonDiagnostic is a diagnostic for editors.
type jsonDiagnostic struct {
	File       string `json:"file"`
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Severity   string `json:"severity"`
	Operator   string `json:"operator,omitempty"`
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

// Run implements the command.
func (c *validateCommand) Run(s streams) error {
	var all dataflow.Diagnostics
	missing := false
	for _, path := range c.Specs {
		_, diags, err := loadPlan(path, planOptions{}, s)
		if err != nil {
			missing = true
			status(err, s.err)
		}
		all = append(all, diags...)
	}
	if c.Format == "json" {
		if err := writeJSON(s, all); err != nil {
			return err
		}
	} else {
		printDiagnostics(s.err, all)
	}
	if missing || all.HasErrors() {
		return &exitError{status: exitUsage}
	}
	return nil
}

func writeJSON(s streams, diags dataflow.Diagnostics) error {
	list := []jsonDiagnostic{}
	for _, d := range diags {
		severity := "error"
		if d.Severity == dataflow.Warning {
			severity = "warning"
		}
		list = append(list, jsonDiagnostic{d.Pos.File, d.Pos.Line, d.Pos.Col, severity, d.Operator, d.Message, d.Suggestion})
	}
	text, err := readableJSON(list)
	if err != nil {
		return err
	}
	_, err = s.out.Write(text)
	return err
}
