select a as `from`, b as `to` from {{ source('crm', 'friends') }}
