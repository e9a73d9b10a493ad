package dataflow

import "strings"

// bindParams checks each parameter by itself and collects the sound ones.
func (r *resolver) bindParams(u *use, desc *Descriptor) {
	op := u.op
	names := make([]string, len(desc.Params))
	for i := range desc.Params {
		names[i] = desc.Params[i].Name
	}
	r.uniqueParams("", op.Name, op.Params)
	// Exact names go first, so that a misspelled one does not take the place of a right one.
	have := make(map[string]bool, len(op.Params))
	for _, p := range op.Params {
		if pd := desc.Param(p.Name); pd != nil && !have[p.Name] {
			have[p.Name] = true
			r.bindParam(u, pd, p)
		}
	}
	reported := make(map[string]bool) // "" for a parameter that the front end has reported
	for _, p := range op.Params {
		if desc.Param(p.Name) != nil || reported[p.Name] {
			continue
		}
		reported[p.Name] = true
		if p.Name == "" {
			continue
		}
		suggestion := r.suggest.nearest(p.Name, names)
		message := "unknown parameter " + quote(p.Name)
		if suggestion == "" {
			message += "; " + parametersText(desc.Name, names)
		}
		r.errorf(p.Pos, op.Name, suggestion, "%s", message)
		if pd := desc.Param(suggestion); pd != nil && !have[suggestion] {
			have[suggestion] = true
			p.Name = suggestion
			r.bindParam(u, pd, p)
		}
	}
	sound := make(map[string]bool, len(u.params))
	for _, p := range u.params {
		sound[p.Name] = true
	}
	u.complete = true
	for i := range desc.Params {
		pd := &desc.Params[i]
		if !pd.Required || sound[pd.Name] {
			continue
		}
		u.complete = false
		if !have[pd.Name] && !reported[""] {
			r.errorf(op.Pos, op.Name, "", "%s needs the parameter %q", a(desc.Name), pd.Name)
		}
	}
}

func parametersText(operatorType string, names []string) string {
	if len(names) == 0 {
		return a(operatorType) + " has none"
	}
	return a(operatorType) + " has " + strings.Join(names, ", ")
}

// bindParam checks the value of one parameter. A wrong value with a suggestion counts as that, any
// other wrong value as left out.
func (r *resolver) bindParam(u *use, pd *ParamDesc, p Param) {
	message, suggestion := pd.check(p.Value)
	if message != "" {
		pos := p.Pos
		if len(p.Text) > 0 {
			pos = p.Text.At(p.Value, 0)
		}
		r.errorf(pos, u.op.Name, suggestion, "%s", message)
		if suggestion == "" {
			return
		}
		p.Value, p.Text = suggestion, nil
	}
	u.params = append(u.params, p)
}

// uniqueParams reports parameters that are given twice.
func (r *resolver) uniqueParams(prefix, operator string, params []Param) {
	first := make(map[string]Pos, len(params))
	for _, p := range params {
		if p.Name == "" {
			continue
		}
		if pos, ok := first[p.Name]; ok {
			r.errorf(p.Pos, operator, "", "%sduplicate parameter %q; the first is at %s", prefix, p.Name, pos)
			continue
		}
		first[p.Name] = p.Pos
	}
}
