select name, age from {{ source('crm', 'people') }} where age >= 18
