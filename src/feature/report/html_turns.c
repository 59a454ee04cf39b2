/* The turns of each task: what was verified, what the Coach said, and what the Player was told. */
#include "report.h"

static const struct bl_json *html_turns_get(const struct bl_json *object, const char *key)
{
    return bl_json_get(object, bl_text_from(key));
}

static void html_turns_put_text(struct page *page, const char *text)
{
    page_clean(page, text, CLEAN_HTML_LINE);
}

/* Words that may be of several lines. */
static void put_lines(struct page *page, const char *text)
{
    page_put(page, "<span class=\"lines\">");
    page_clean(page, text, CLEAN_HTML_LINES);
    page_put(page, "</span>");
}

/* Shown as it was written, lines and all. */
static void put_folded(struct page *page, const char *title, const char *text)
{
    if (text == NULL)
        return;
    page_put(page, "<details><summary>%s</summary><div class=\"body\"><pre>", title);
    page_clean(page, text, CLEAN_HTML_LINES);
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

static void put_verification(struct page *page, struct report *report,
                             const struct report_turn *turn)
{
    const struct bl_json *verify = html_turns_get(turn->row, "verify"),
                         *runs = html_turns_get(verify, "runs");
    const char *why = report_member(verify, "why");
    if (!bl_json_is(verify, BL_JSON_OBJECT))
        return;
    page_put(page, "<p class=\"small\"><b>Verification</b> ");
    report_html_badge(page, turn->verified, turn->verified);
    if (why != NULL) {
        page_put(page, " ");
        put_lines(page, why);
    }
    page_put(page, "</p>\n");
    if (bl_json_size(runs) > 0) {
        page_put(page, "<div class=\"scroll\"><table class=\"inner\"><thead><tr><th>Command</th>"
                       "<th class=\"num\">Exit</th><th class=\"num\">ms</th></tr></thead><tbody>"
                       "\n");
        BL_JSON_EACH (run, runs) {
            page_put(page, "<tr><td class=\"mono\">");
            html_turns_put_text(page, report_member(run, "command"));
            page_put(page, "%s</td>",
                     bl_json_boolean(html_turns_get(run, "setup"), false)
                         ? " <span class=\"soft\">(setup)</span>"
                         : "");
            page_put(page, "<td class=\"num\">%s</td>",
                     report_number(&report->arena, run, "exit_code"));
            page_put(page, "<td class=\"num\">%s</td></tr>\n",
                     report_number(&report->arena, run, "ms"));
        }
        page_put(page, "</tbody></table></div>\n");
    }
    put_folded(page, "End of the output", report_member(verify, "tail"));
}

static void put_criteria(struct page *page, const struct bl_json *criteria)
{
    if (bl_json_size(criteria) == 0)
        return;
    page_put(page, "<div class=\"scroll\"><table class=\"inner\"><thead><tr><th>Criterion</th>"
                   "<th>Result</th><th>Notes</th></tr></thead><tbody>\n");
    BL_JSON_EACH (criterion, criteria) {
        const char *result = report_member(criterion, "result");
        page_put(page, "<tr><td class=\"mono\">");
        html_turns_put_text(page, report_member(criterion, "id"));
        page_put(page, "</td><td class=\"%s\">",
                 result != NULL && strcmp(result, "verified") == 0 ? "good" : "bad");
        html_turns_put_text(page, result);
        page_put(page, "</td><td>");
        put_lines(page, report_member(criterion, "notes"));
        page_put(page, "</td></tr>\n");
    }
    page_put(page, "</tbody></table></div>\n");
}

static void put_issues(struct page *page, const struct bl_json *issues)
{
    if (bl_json_size(issues) == 0)
        return;
    page_put(page, "<ul class=\"issues\">\n");
    BL_JSON_EACH (issue, issues) {
        const char *severity = report_member(issue, "severity");
        const char *file = report_member(issue, "file");
        const char *source = report_member(issue, "source");
        const char *criterion = report_member(issue, "criterion");
        const char *suggestion = report_member(issue, "suggestion");
        bool grave = severity != NULL && strcmp(severity, "critical") == 0;
        bool major = severity != NULL && strcmp(severity, "major") == 0;
        page_put(page, "<li class=\"%s\">", grave ? "critical" : major ? "major" : "lesser");
        report_html_badge(page, severity, severity);
        page_put(page, " <span class=\"soft small\">");
        html_turns_put_text(page, source);
        if (criterion != NULL) {
            page_put(page, ", ");
            html_turns_put_text(page, criterion);
        }
        page_put(page, "</span> ");
        if (file != NULL) {
            page_put(page, "<code>");
            html_turns_put_text(page, file);
            if (report_count(issue, "line") > 0)
                page_put(page, ":%u", report_count(issue, "line"));
            page_put(page, "</code> ");
        }
        put_lines(page, report_member(issue, "description"));
        if (suggestion != NULL) {
            page_put(page, "<div class=\"soft small\">");
            put_lines(page, suggestion);
            page_put(page, "</div>");
        }
        page_put(page, "</li>\n");
    }
    page_put(page, "</ul>\n");
}

static void html_put_turn(struct page *page, struct report *report, const struct report_turn *turn)
{
    const struct bl_json *verdict = html_turns_get(turn->row, "verdict"),
                         *player = html_turns_get(turn->row, "player");
    const char *rationale = report_member(verdict, "rationale");
    const char *summary = report_member(html_turns_get(player, "result"), "summary");
    page_put(page, "<article><h4>Attempt %u, turn %u ", turn->attempt, turn->turn);
    report_html_badge(page, turn->decision, turn->decision);
    page_put(page, "<span class=\"soft\">%s%s%s</span></h4>\n", turn->time,
             turn->merge ? ", merge turn" : "", turn->counted ? "" : ", not counted");
    put_phases(page, turn);
    if (summary != NULL) {
        page_put(page, "<p class=\"small\"><b>Player</b> ");
        put_lines(page, summary);
        page_put(page, "</p>\n");
    }
    put_verification(page, report, turn);
    if (rationale != NULL) {
        page_put(page, "<p class=\"small\"><b>Coach</b> ");
        put_lines(page, rationale);
        page_put(page, "</p>\n");
    }
    put_criteria(page, html_turns_get(verdict, "criteria"));
    put_issues(page, html_turns_get(turn->row, "issues"));
    put_folded(page, "Feedback to the Player", report_member(turn->row, "feedback"));
    page_put(page, "</article>\n");
}

/* Open at once are those where something is left to look at. */
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
            html_put_turn(page, report, &task->all_turns[k]);
        page_put(page, "</div></details>\n");
    }
    if (!any)
        page_put(page, "<p class=\"soft\">None.</p>\n");
}
