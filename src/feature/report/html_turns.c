/* The turns of each task: the verification, the Coach's verdict and the Player's feedback. */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

static void html_turns_put_text(struct page *page, const char *text)
{
    page_clean(page, text, CLEAN_HTML_LINE);
}

/* Puts text that may have several lines. */
static void put_lines(struct page *page, const char *text)
{
    page_put(page, "<span class=\"lines\">");
    page_clean(page, text, CLEAN_HTML_LINES);
    page_put(page, "</span>");
}

/* Puts preformatted text, folded. */
static void put_folded(struct page *page, const char *title, struct bl_text text)
{
    if (text.size == 0)
        return;
    page_put(page, "<details><summary>%s</summary><div class=\"body\"><pre>", title);
    page_clean(page, text.data, CLEAN_HTML_LINES);
    page_put(page, "</pre></div></details>\n");
}

static void put_phases(struct page *page, const struct report_turn *turn)
{
    page_put(page, "<div class=\"chips\">");
    for (size_t i = 0; i < turn->bar_count; i++) {
        const struct report_bar *bar = &turn->bars[i];
        page_put(page, "<span><i class=\"%s\"></i>%s %s", report_html_phase(bar->phase),
                 report_phase_name(bar->phase), bar->time);
        if (bar->outcome[0] != '\0' && strcmp(bar->outcome, "ended") != 0) {
            page_put(page, " (");
            html_turns_put_text(page, bar->outcome);
            page_put(page, ")");
        }
        page_put(page, "</span>");
    }
    page_put(page, "<span>tokens %s</span><span>cost %s</span></div>\n", turn->tokens, turn->cost);
}

static void put_runs(struct page *page, const struct verify_outcome *verify)
{
    if (verify->run_count == 0)
        return;
    page_put(page, "<div class=\"scroll\"><table class=\"inner\"><thead><tr><th>Command</th>"
                   "<th class=\"num\">Exit</th><th class=\"num\">ms</th></tr></thead><tbody>"
                   "\n");
    for (size_t i = 0; i < verify->run_count; i++) {
        const struct verify_run *run = &verify->runs[i];
        char code[16] = REPORT_UNKNOWN;
        if (run->exit_code >= 0)
            snprintf(code, sizeof code, "%d", run->exit_code);
        page_put(page, "<tr><td class=\"mono\">");
        html_turns_put_text(page, run->command);
        page_put(page, "%s</td>", run->setup ? " <span class=\"soft\">(setup)</span>" : "");
        page_put(page, "<td class=\"num\">%s</td><td class=\"num\">%" PRIu64 "</td></tr>\n", code,
                 run->ms);
    }
    page_put(page, "</tbody></table></div>\n");
}

static void put_verification(struct page *page, const struct report_turn *turn)
{
    const struct verify_outcome *verify = &turn->row->verify;
    if (!turn->row->verified)
        return;
    page_put(page, "<p class=\"small\"><b>Verification</b> ");
    report_html_badge(page, turn->verified, turn->verified);
    if (verify->why.size > 0) {
        page_put(page, " ");
        put_lines(page, verify->why.data);
    }
    page_put(page, "</p>\n");
    put_runs(page, verify);
    put_folded(page, "End of the output", verify->tail);
}

static void put_criteria(struct page *page, const struct report_turn *turn)
{
    if (turn->criterion_count == 0)
        return;
    page_put(page, "<div class=\"scroll\"><table class=\"inner\"><thead><tr><th>Criterion</th>"
                   "<th>Result</th><th>Notes</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < turn->criterion_count; i++) {
        const struct criterion_result *criterion = &turn->criteria[i];
        page_put(page, "<tr><td class=\"mono\">");
        html_turns_put_text(page, criterion->id);
        page_put(page, "</td><td class=\"%s\">%s</td><td>", criterion->verified ? "good" : "bad",
                 criterion->verified ? "verified" : "rejected");
        put_lines(page, criterion->notes.size > 0 ? criterion->notes.data : NULL);
        page_put(page, "</td></tr>\n");
    }
    page_put(page, "</tbody></table></div>\n");
}

static void put_issue(struct page *page, const struct issue *issue)
{
    const char *severity = issue_severity_name(issue->severity);
    page_put(page, "<li class=\"%s\">", issue->severity <= ISSUE_MAJOR ? severity : "lesser");
    report_html_badge(page, severity, severity);
    page_put(page, " <span class=\"soft small\">%s", issue_source_name(issue->source));
    if (issue->criterion != NULL) {
        page_put(page, ", ");
        html_turns_put_text(page, issue->criterion);
    }
    page_put(page, "</span> ");
    if (issue->file != NULL) {
        page_put(page, "<code>");
        html_turns_put_text(page, issue->file);
        if (issue->line > 0)
            page_put(page, ":%" PRId64, issue->line);
        page_put(page, "</code> ");
    }
    put_lines(page, issue->description.data);
    if (issue->suggestion.size > 0) {
        page_put(page, "<div class=\"soft small\">");
        put_lines(page, issue->suggestion.data);
        page_put(page, "</div>");
    }
    page_put(page, "</li>\n");
}

static void put_issues(struct page *page, const struct bl_list *issues)
{
    if (bl_list_empty(issues))
        return;
    page_put(page, "<ul class=\"issues\">\n");
    BL_LIST_EACH (link, issues)
        put_issue(page, BL_CONTAINER(link, struct issue, link));
    page_put(page, "</ul>\n");
}

static void html_put_turn(struct page *page, const struct report_turn *turn)
{
    page_put(page, "<article><h4>Attempt %u, turn %u ", turn->attempt, turn->turn);
    report_html_badge(page, turn->decision, turn->decision);
    page_put(page, "<span class=\"soft\">%s%s%s</span></h4>\n", turn->time,
             turn->merge ? ", merge turn" : "", turn->counted ? "" : ", not counted");
    put_phases(page, turn);
    if (turn->summary != NULL) {
        page_put(page, "<p class=\"small\"><b>Player</b> ");
        put_lines(page, turn->summary);
        page_put(page, "</p>\n");
    }
    put_verification(page, turn);
    if (turn->rationale != NULL) {
        page_put(page, "<p class=\"small\"><b>Coach</b> ");
        put_lines(page, turn->rationale);
        page_put(page, "</p>\n");
    }
    put_criteria(page, turn);
    put_issues(page, &turn->row->issues);
    put_folded(page, "Feedback to the Player", turn->row->feedback);
    page_put(page, "</article>\n");
}

/* Turns of unfinished tasks are unfolded. */
void report_html_turns(struct page *page, struct report *report)
{
    bool any = false;
    page_put(page, "<h2 id=\"turns\">Turns</h2>\n");
    for (size_t i = 0; i < report->view->task_count; i++) {
        const struct report_task *task = &report->tasks[i];
        const char *state = bl_task_state_name(task->view->row.state);
        if (task->turn_count == 0)
            continue;
        any = true;
        page_put(page, "<details id=\"turns-%zu\"%s><summary><b>", i + 1,
                 task->view->row.state == BL_TASK_COMPLETED ? "" : " open");
        html_turns_put_text(page, task->view->row.id);
        page_put(page, "</b> ");
        report_html_badge(page, state, state);
        page_put(page,
                 " <span class=\"soft small\">%zu turn%s, %s</span></summary>"
                 "<div class=\"body\">\n",
                 task->turn_count, task->turn_count == 1 ? "" : "s", task->time);
        for (size_t k = 0; k < task->turn_count; k++)
            html_put_turn(page, &task->all_turns[k]);
        page_put(page, "</div></details>\n");
    }
    if (!any)
        page_put(page, "<p class=\"soft\">None.</p>\n");
}
