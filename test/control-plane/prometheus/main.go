// What `promtool check rules` and `promtool check metrics` do, without promtool's thousand dependencies:
// rules are parsed by Prometheus' own rulefmt (PromQL and templates included), metrics by its promlint.
// Reads one of them on standard input, prints each problem on a line, and exits 1 when there is one.
package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	problems, err := check(os.Args[1:])
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func check(args []string) (problems []string, err error) {
	if len(args) == 1 && args[0] == "metrics" {
		found, err := promlint.New(os.Stdin).Lint()
		for _, each := range found {
			problems = append(problems, each.Metric+": "+each.Text)
		}
		return problems, err
	}
	if len(args) != 1 || args[0] != "rules" {
		return nil, fmt.Errorf("usage: prometheus-check rules|metrics < FILE")
	}
	content, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	_, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, each := range errs {
		problems = append(problems, each.Error())
	}
	return problems, nil
}
