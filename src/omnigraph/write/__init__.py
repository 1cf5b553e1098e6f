"""Every producer of a `PublishPlan`: rows -> validate -> stage -> plan -> publish -> commit."""
