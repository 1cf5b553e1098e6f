"""The query planner: choose the operators of a query and their order.             (ir, sizes -> PLAN -> executors)"""

from omnigraph.query.plan.model import QueryPlan, Sizes
from omnigraph.query.plan.planner import plan_query

__all__ = ["QueryPlan", "Sizes", "plan_query"]
