-- Queries over the system relations, each asked of PostgreSQL 15 and of us. A block is a line that
-- begins with `-- @`, the query's name, and the query. {customers} stands for the OID of a relation.

-- @ one
select 1

-- @ names of unnamed columns
select 1, 'x', true, null, 1 + 1, 1.5, now() is not null, 'a' || 'b', current_user, current_schema,
       current_schema(), session_user, current_database(), 'x'::text, 'pg_class'::regclass,
       '1'::int, case when true then 1 end, case when true then 'a' else current_user end,
       coalesce(null, 1), nullif(1, 2), greatest(1, 2), array[1, 2], array(select 1), (select 2),
       exists (select 1), (array[1, 2])[1], length('abc'), trim('x'), 1 = 1, not true, 1::int8,
       '{1}'::oid[], 'r'::"char", interval '1 day' is null

-- @ literals
select E'a\tb', 'it''s', $$dollar$$, $tag$x$y$tag$, U&'\0041', 'a'
       'b', -1, - -1, 2147483648, 9223372036854775807, 1e3 > 1

-- @ comments
select /* a /* nested */ one */ 1 -- to the end
       as one

-- @ arithmetic
select 7 / 2, -7 / 2, 7 % 3, -7 % 3, 2 * 3 + 1, (2 + 3) * 4, 7 & 3, 7 | 8, 5 # 1, 1 << 4, ~5

-- @ logic of nulls
select null and false, null or true, not null::bool, null = 1, null is distinct from 1,
       1 in (2, null), 1 in (1, null), 1 not in (2, null), null is null, 1 between 0 and 2

-- @ text functions
select lower('ABC'), upper('abc'), length('abc'), substring('abcdef' from 2 for 3),
       substring('abcdef' from 0 for 3), substr('abcdef', 3), position('c' in 'abc'),
       strpos('abc', 'z'), replace('aXa', 'X', 'b'), left('abc', 2), right('abc', 2),
       left('abc', -1), split_part('a,b,c', ',', 2), trim(both '"' from '"x"'),
       trim(trailing ';' from 'x;'), ltrim('xxa', 'x'), rtrim('axx', 'x'), btrim(' a '),
       repeat('ab', 2), reverse('abc'), concat('a', null, 1), concat_ws('-', 'a', null, 'b'),
       initcap('hello world'), md5('a'), ascii('a'), chr(97), starts_with('abc', 'ab')

-- @ quoting
select quote_ident('abc'), quote_ident('Abc'), quote_ident('select'), quote_ident('a b'),
       quote_literal('it''s'), quote_nullable(null), format('%I.%I is %s %L %%', 'a B', 'c', 1, 'x')

-- @ identifiers
select parse_ident('"A".b'), parse_ident('sales.orders'), parse_ident(' a . "B""c".D ')

-- @ identifiers with more behind them
select parse_ident('"A".b c', false), parse_ident('x.y(int)', false), parse_ident('x', true), parse_ident(null, false)

-- @ pattern matching
select 'abc' ~ 'b', 'abc' ~ '^b', 'ABC' ~* 'b', 'abc' !~ 'z', 'abc' like 'a%', 'a_c' like 'a\_c',
       'abc' like 'a\_c', 'abc' not like 'x%', 'ABC' ilike 'a%', 'a%c' like 'a/%c' escape '/',
       regexp_replace('abcabc', 'b', 'X'), regexp_replace('abcabc', 'b', 'X', 'g'),
       regexp_match('foobar', 'o(b)(a)')

-- @ arrays
select array_length(array[1, 2, 3], 1), array_upper(array[1, 2], 1), array_lower(array[5], 1),
       array_length('{}'::int[], 1), cardinality(array[1, 2]), 1 = any (array[1, 2]),
       3 = all (array[3, 3]), 3 <> all (array[1, 2]), array[1, 2] || 3, array[1] || array[2],
       array_append(array[1], 2), array_remove(array[1, 2, 1], 1), array_position(array['a', 'b'], 'b'),
       array_to_string(array['a', null, 'b'], ','), array_to_string(array['a', null, 'b'], ',', '*'),
       string_to_array('a,b', ','), (array[1, 2, 3])[2], (array[1, 2, 3])[9], (array[1, 2, 3])[2:3],
       '{a,"b c",NULL}'::text[], 2 > any (array[1, 5]), null::int[] is null

-- @ sets in the select list
select generate_series(1, 3), unnest(array['a', 'b', 'c'])

-- @ sets in from
select * from generate_series(1, 3) as s(n), unnest(array['x', 'y']) with ordinality as u(v, place)
order by n, place

-- @ a set without an alias for its column
select s, s + 1 from generate_series(2, 6, 2) s order by s

-- @ several arrays side by side
select * from unnest(array[1, 2], array['a', 'b', 'c']) as t(n, x) order by x

-- @ values
select * from (values (1, 'a'), (2, null)) as v(n, x) order by n

-- @ values alone
values (1, 'x'), (2, 'y') order by 1 desc

-- @ union decides what a string is
select 1 union all select '2' union select null order by 1

-- @ union of names and texts
select nspname from pg_namespace where nspname = 'public' union select 'x' order by 1

-- @ intersect and except
(select 1 union select 2 intersect select 2) except select 1

-- @ with
with a as (select 1 as n), b(m) as (select n + 1 from a) select * from a, b

-- @ recursion
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select sum(n), count(*) from t

-- @ aggregates
select count(*), count(distinct relkind), min(relname), max(oid)::int8 > 0, bool_and(relnatts > 0),
       string_agg(distinct relkind::text, ',' order by relkind::text),
       array_agg(relname order by relname desc) filter (where relname like 'pg_am%')
from pg_class where relname ~ '^pg_a' and relkind = 'r'

-- @ grouping by place and by name
select relkind as kind, count(*) from pg_class where relname like 'pg\_a%' group by 1 having count(*) > 1 order by kind

-- @ grouping by a key
select c.oid, c.relname, count(a.attnum) from pg_class c join pg_attribute a on a.attrelid = c.oid where c.relname in ('customers', 'moods') and a.attnum > 0 group by c.oid order by 2

-- @ grouping by an expression
select lower(relname) || 'x', count(*) from pg_class where relname = 'customers' group by lower(relname)

-- @ windows
select relname, row_number() over (order by relname), rank() over w, lag(relname) over (order by relname)
from pg_class where relname in ('pg_am', 'pg_class', 'pg_type') window w as (order by relkind) order by 1

-- @ distinct on
select distinct on (relkind) relkind, relname from pg_class where relname like 'pg\_a%' order by relkind, relname

-- @ nulls in an order
select n from (values (1), (null), (2)) as v(n) order by n desc

-- @ nulls said to be last
select n from (values (1), (null), (2)) as v(n) order by n desc nulls last limit 2 offset 1

-- @ lateral
select c.relname, l.n from pg_class c, lateral (select count(*) as n from pg_attribute a where a.attrelid = c.oid and a.attnum > 0) l
where c.relname in ('customers', 'orders') order by 1

-- @ join using
select nspname, relname from pg_class c join (select oid as relnamespace, nspname from pg_namespace) n using (relnamespace)
where relname = 'orders'

-- @ star over joins
select * from (select 1 as a, 2 as b) x join (select 1 as a, 3 as c) y using (a)

-- @ natural join
select * from (select 1 as a, 2 as b) x natural join (select 1 as a, 3 as c) y

-- @ full join
select a, x.b, y.c from (values (1, 'l'), (2, 'm')) x(a, b) full join (values (2, 'r'), (3, 's')) y(a, c) using (a) order by a

-- @ rows compared
select (1, 'a') = (1, 'a'), (1, 2) <> (1, 3), (1, 2) in ((1, 2), (3, 4))

-- @ the names of objects
select 'customers'::regclass, 'sales.orders'::regclass, 'pg_catalog.pg_class'::regclass::oid,
       'sales.orders'::regclass::text, {customers}::regclass, 0::regclass, 999999::regclass,
       'int4'::regtype, 'integer'::regtype::oid, 'character varying'::regtype, 'text[]'::regtype,
       'sales'::regnamespace, 'postgres'::regrole, 'array_in'::regproc, to_regclass('nope'),
       to_regclass('public.customers'), to_regtype('nope'), to_regtype('numeric'), 23::regtype::text

-- @ the name of an object with odd letters
select attname, quote_ident(attname) from pg_attribute where attrelid = 'sales.orders'::regclass and attnum > 0 order by attnum

-- @ types by name
select format_type(1043, 24), format_type(1700, 655366), format_type(23, null), format_type(1009, -1),
       format_type(1042, -1), format_type(1042, 14), format_type(1042, null), format_type(1184, 3),
       format_type(18, null), format_type(0, null), format_type(999999, null), format_type(22, null),
       format_type(1015, 14), format_type(2249, null), format_type(null, null),
       format_type(1700, 0), format_type(1700, 3), format_type(1700, 4), format_type(1043, 4), format_type(1043, 5)

-- @ hidden columns
select c.tableoid, c.tableoid::regclass, d.tableoid from pg_class c left join pg_description d on d.objoid = 0 where c.oid = {customers}

-- @ all of pg_namespace
select oid, nspname, nspowner, nspacl from pg_namespace where nspname !~ '^mz_' order by oid

-- @ all columns of pg_class
select c.* from pg_class c where false

-- @ pg_class
select oid, relname, relnamespace, reltype, reloftype, relowner, relam, relhasindex, relisshared, relpersistence,
       relkind, relnatts, relchecks, relhasrules, relhastriggers, relhassubclass, relrowsecurity,
       relispopulated, relreplident, relispartition, relacl, reloptions, relpartbound
from pg_class where relnamespace in ('public'::regnamespace, 'sales'::regnamespace) order by oid

-- @ pg_attribute
select attrelid::regclass, attname, atttypid::regtype, attlen, attnum, attndims, atttypmod, attbyval, attalign,
       attstorage, attnotnull, atthasdef, attidentity, attgenerated, attisdropped, attcollation
from pg_attribute where attrelid >= 16384 and attrelid in (select oid from pg_class where relkind <> 't')
  and attrelid::regclass::text !~ 'pg_toast' order by attrelid, attnum

-- @ attributes of the system
select attrelid, attname, atttypid, attlen, attnum, attndims, attcacheoff, atttypmod, attbyval, attalign, attstorage,
       attcompression, attnotnull, atthasdef, atthasmissing, attidentity, attgenerated, attisdropped, attislocal,
       attinhcount, attcollation, attoptions, attstattarget
from pg_attribute where attrelid < 15000 order by attrelid, attnum

-- @ types of the system
select oid, typname, typnamespace, typowner, typlen, typbyval, typtype, typcategory, typispreferred, typisdefined,
       typdelim, typrelid, typsubscript, typelem, typarray, typinput, typoutput, typreceive, typsend, typmodin, typmodout,
       typanalyze, typalign, typstorage, typnotnull, typbasetype, typtypmod, typndims, typcollation, typacl
from pg_type where oid < 15000 order by oid

-- @ row types
select typname, typnamespace::regnamespace, typlen, typtype, typcategory, typrelid::regclass, typelem::regtype,
       typarray::regtype, typinput, typoutput, typreceive, typsend, typsubscript, typalign, typstorage, typdelim
from pg_type where typnamespace = 'sales'::regnamespace order by typname

-- @ pg_index
select indexrelid::regclass, indrelid::regclass, indnatts, indnkeyatts, indisunique, indisprimary, indisvalid,
       indkey, indcollation, indclass, indoption, indpred, indkey[0], array_upper(indkey, 1)
from pg_index where indrelid in ('customers'::regclass, 'sales.orders'::regclass, 'sales.mv_totals'::regclass) order by 1

-- @ pg_constraint
select oid, conname, connamespace, contype, condeferrable, convalidated, conrelid, conindid, confrelid,
       confupdtype, confdeltype, confmatchtype, conislocal, connoinherit, conkey, confkey, conpfeqop, pg_get_constraintdef(oid, true)
from pg_constraint where conrelid >= 16384 order by oid

-- @ defaults
select adrelid::regclass, adnum, pg_get_expr(adbin, adrelid) from pg_attrdef order by 1, 2

-- @ comments on things
select objoid, classoid::regclass, objsubid, description from pg_description where objoid >= 16384 order by 1, 3

-- @ comments by function
select obj_description({customers}, 'pg_class'), obj_description({customers}), col_description({customers}, 2),
       obj_description('sales'::regnamespace, 'pg_namespace'), obj_description(1, 'pg_class'),
       shobj_description((select oid from pg_roles where rolname = 'reader'), 'pg_authid')

-- @ roles
select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolconnlimit, rolvaliduntil, oid from pg_roles order by oid

-- @ members
select roleid::regrole, member::regrole, grantor::regrole, admin_option from pg_auth_members where member >= 16384

-- @ databases
select datname, pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datctype, datacl from pg_database where datname not like 'template%' order by 1

-- @ visibility
select relname, pg_table_is_visible(oid) from pg_class where relname in ('customers', 'orders', 'pg_class', 'columns') order by 1

-- @ visibility of nothing
select pg_table_is_visible(999999), pg_type_is_visible(23), pg_function_is_visible(750)

-- @ the search path
select current_schemas(true), current_schemas(false), current_setting('search_path'), (current_schemas(true))[1]

-- @ settings
select current_setting('server_version_num')::int >= 150000, current_setting('nope.nope', true), current_setting('standard_conforming_strings')

-- @ setting something
select set_config('application_name', 'x', false), current_setting('max_index_keys')

-- @ privileges
select has_table_privilege('customers', 'select'), has_table_privilege('reader', 'customers', 'select'),
       has_table_privilege('reader', 'customers', 'insert'), has_table_privilege('alice', 'customers', 'select'),
       has_table_privilege('alice', 'sales.orders', 'select'), has_schema_privilege('alice', 'sales', 'usage'),
       has_schema_privilege('alice', 'sales', 'create'), has_database_privilege('alice', 'shop', 'connect'),
       has_table_privilege('alice', 'pg_class', 'select'), pg_has_role('alice', 'reader', 'member'),
       pg_has_role('reader', 'alice', 'usage'), has_table_privilege('alice', {customers}, 'select, insert')

-- @ access lists taken apart
select (aclexplode(relacl)).grantee::regrole, (aclexplode(relacl)).privilege_type, (aclexplode(relacl)).is_grantable from pg_class where oid = {customers} order by 1, 2

-- @ access lists in from
select relname, x.privilege_type from pg_class, aclexplode(relacl) x where oid = {customers} and x.grantee <> 10 order by 2

-- @ json
select json_build_object('a', 1, 'b', 'x"y', 'c', null, 'd', true), json_build_array(1, 'a', null), to_json('x'::text)

-- @ expanding an index key
select (information_schema._pg_expandarray(i.indkey)).n, (information_schema._pg_expandarray(i.indkey)).x from pg_index i where i.indexrelid = 'sales.orders_placed'::regclass

-- @ subscripts of a vector
select generate_subscripts(indkey, 1), unnest(indkey) from pg_index where indexrelid = 'sales.orders_placed'::regclass

-- @ index definitions
select pg_get_indexdef(oid), pg_get_indexdef(oid, 1, false), pg_get_indexdef(oid, 2, true), pg_get_indexdef(oid, 9, true) from pg_class where relname = 'orders_placed'

-- @ index definitions of the system
select indexrelid, pg_get_indexdef(indexrelid) from pg_index where indrelid in (1259, 1249) order by 1

-- @ view definitions
select pg_get_viewdef('v_cust', true), pg_get_viewdef('v_cust'::regclass, true)

-- @ views
select schemaname, viewname, viewowner from pg_views where schemaname = 'public'

-- @ materialized views
select schemaname, matviewname, matviewowner, tablespace, hasindexes, ispopulated from pg_matviews

-- @ tables
select * from pg_tables where schemaname in ('public', 'sales') order by 1, 2

-- @ indexes
select * from pg_indexes where schemaname in ('public', 'sales') order by 1, 2, 3

-- @ information_schema.tables
select * from information_schema.tables where table_schema in ('public', 'sales') and table_type = 'BASE TABLE' order by 2, 3

-- @ information_schema.columns
select * from information_schema.columns where table_name in ('customers', 'orders', 'moods') order by table_name, ordinal_position

-- @ information_schema.columns of the system
select * from information_schema.columns where table_schema = 'pg_catalog' and table_name in ('pg_class', 'pg_index', 'pg_attribute', 'pg_type') order by table_name, ordinal_position

-- @ information_schema.columns of information_schema
select * from information_schema.columns where table_schema = 'information_schema' and table_name in ('columns', 'tables') order by table_name, ordinal_position

-- @ information_schema.schemata
select * from information_schema.schemata where schema_name in ('public', 'sales', 'pg_catalog', 'information_schema') order by 2

-- @ information_schema.table_constraints
select * from information_schema.table_constraints where table_schema in ('public', 'sales') order by 2, 3

-- @ information_schema.key_column_usage
select * from information_schema.key_column_usage order by constraint_name, ordinal_position

-- @ information_schema.constraint_column_usage
select * from information_schema.constraint_column_usage order by constraint_name, column_name

-- @ information_schema.referential_constraints
select * from information_schema.referential_constraints

-- @ information_schema.check_constraints
select constraint_schema, constraint_name from information_schema.check_constraints where constraint_schema in ('public', 'sales') order by 2

-- @ information_schema.table_privileges
select * from information_schema.table_privileges where table_name = 'customers' order by grantee, privilege_type

-- @ the catalog's name in front
select table_name from "shop".INFORMATION_SCHEMA.tables where table_schema = 'sales' and table_type = 'BASE TABLE'

-- @ columns with keys
select c.column_name, c.data_type, tc.constraint_type
from information_schema.columns c
left join information_schema.key_column_usage k on k.table_name = c.table_name and k.column_name = c.column_name
left join information_schema.table_constraints tc on tc.constraint_name = k.constraint_name
where c.table_schema = 'sales' and c.table_name = 'orders' order by c.ordinal_position, 3

-- @ a tree of a database tool
select n.oid, n.*, d.description from pg_catalog.pg_namespace n
left outer join pg_catalog.pg_description d on d.objoid = n.oid and d.objsubid = 0 and d.classoid = 'pg_namespace'::regclass
where n.nspname = 'sales' order by nspname

-- @ attributes of a database tool
select c.relname, a.attnum, a.attname, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value, dsc.description, dep.objid
from pg_catalog.pg_attribute a
inner join pg_catalog.pg_class c on (a.attrelid = c.oid)
left outer join pg_catalog.pg_attrdef ad on (a.attrelid = ad.adrelid and a.attnum = ad.adnum)
left outer join pg_catalog.pg_description dsc on (c.oid = dsc.objoid and a.attnum = dsc.objsubid)
left outer join pg_depend dep on dep.refobjid = a.attrelid and dep.deptype = 'i' and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
where not a.attisdropped and a.attnum > 0 and c.oid = {customers} order by a.attnum

-- @ columns for a dashboard
select quote_ident(column_name) as "column", data_type as "type" from information_schema.columns
where quote_ident(table_schema) = any (array(select trim(s) from unnest(string_to_array(current_setting('search_path'), ',')) s))
  and quote_ident(table_name) = 'customers' order by ordinal_position

-- @ tables along the search path
select case when quote_ident(table_schema) in (
         select case when trim(s[i]) = '"$user"' then user else trim(s[i]) end
         from generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                              array_upper(string_to_array(current_setting('search_path'), ','), 1)) as i,
              string_to_array(current_setting('search_path'), ',') s)
       then quote_ident(table_name) else quote_ident(table_schema) || '.' || quote_ident(table_name) end as "table"
from information_schema.tables where quote_ident(table_schema) not in ('information_schema', 'pg_catalog', 'mz_catalog', 'mz_internal')
  and table_type = 'BASE TABLE' order by 1

-- @ keys for an analytics tool
select n.nspname as "table-schema", t.relname as "table-name", a.attname as "column-name", i.indisprimary
from pg_index i join pg_class t on t.oid = i.indrelid join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = t.relnamespace join pg_attribute a on a.attrelid = t.oid and a.attnum = any (i.indkey)
where t.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_toast' order by 1, 2, 3, 4

-- @ comments for an analytics tool
select c.column_name, pg_catalog.col_description(format('%I.%I', c.table_schema, c.table_name)::regclass::oid, c.ordinal_position) as remarks
from information_schema.columns c where c.table_schema = 'public' and c.table_name = 'customers' order by c.ordinal_position

-- @ foreign keys of a reflecting library
select r.conname, pg_catalog.pg_get_constraintdef(r.oid, true) as condef, n.nspname as conschema
from pg_catalog.pg_constraint r, pg_namespace n, pg_class c
where r.conrelid = 'sales.orders'::regclass and r.contype = 'f' and c.oid = confrelid and n.oid = c.relnamespace order by 1

-- @ what views read
select distinct dependent.relname, referenced.relname
from pg_depend join pg_rewrite on pg_depend.objid = pg_rewrite.oid
join pg_class as dependent on pg_rewrite.ev_class = dependent.oid
join pg_class as referenced on pg_depend.refobjid = referenced.oid
where pg_depend.classid = 'pg_rewrite'::regclass and referenced.oid >= 16384 and dependent.oid <> referenced.oid order by 1, 2

-- @ casts
select castsource::regtype, casttarget::regtype, castcontext, castmethod from pg_cast order by castsource, casttarget

-- @ operators
select oid, oprname, oprleft::regtype, oprright::regtype, oprresult::regtype, oprcode from pg_operator order by oid

-- @ access methods
select oid, amname, amhandler, amtype from pg_am order by oid

-- @ operator classes
select opcname, opcmethod, opcintype::regtype, opcdefault from pg_opclass order by oid

-- @ ranges
select rngtypid::regtype, rngsubtype::regtype, rngmultitypid::regtype from pg_range order by 1

-- @ functions of types
select proname, pronargs, prorettype::regtype, proargtypes, pg_get_function_arguments(oid), pg_get_function_result(oid) from pg_proc where proname in ('array_in', 'int4in', 'textrecv', 'upper') order by oid

-- @ empty relations
select (select count(*) from pg_trigger where tgrelid < 0::oid) + (select count(*) from pg_policy) + (select count(*) from pg_inherits) + (select count(*) from pg_publication) + (select count(*) from pg_enum)

-- @ a bare string against every type
select oid = '23', typname = 'int4', typlen = '4', typbyval = 't', typtype = 'b', typinput = '42', typelem = '0' from pg_type where oid = '23'

-- @ exists
select relname from pg_class c where exists (select 1 from pg_index i where i.indrelid = c.oid and i.indisprimary) and relnamespace in (select oid from pg_namespace where nspname in ('public', 'sales')) order by 1

-- @ a subquery of rows
select relname from pg_class where (relname, relkind) in (select relname, relkind from pg_class where relname = 'customers')

-- @ limits
select relname from pg_class where relname like 'pg\_a%' and relkind = 'r' order by relname limit 2 offset 1

-- @ fetch first
select relname from pg_class where relname like 'pg\_a%' and relkind = 'r' order by relname fetch first 2 rows only

-- @ relations of the system
select relname, relkind, relnatts from pg_class where relnamespace in (11, 'information_schema'::regnamespace) order by oid

-- @ collations
select 'b' collate "C" < 'a', relname collate "default" from pg_class where oid = {customers}

-- @ OPERATOR written out
select 1 operator(pg_catalog.=) 1, 'abc' operator(pg_catalog.~) '^(a.*)$' collate pg_catalog.default, 'a' operator(pg_catalog.!~) 'b'

-- @ casts of values
select 'a'::char, 'abc'::char(2), 'abc'::varchar(2), 'x'::name, 1::bool, true::int, '1'::"char"::int, 3.7::int,
       '2020-01-01'::date, 12::text || 'a', 'a'::text = 'a'::name

-- @ arrays of names of objects
select array_to_string(proargtypes::regtype[]::text[], ','), proallargtypes::regtype[] from pg_proc where proname = 'array_in'

-- @ arrays of rows
select array(select oid from pg_am order by oid), array_agg(amname order by oid), array_agg(distinct amtype) from pg_am

-- @ a lateral limit
select c.relname, x.attname from pg_class c cross join lateral (select attname from pg_attribute a where a.attrelid = c.oid and attnum > 0 order by attnum limit 1) x
where c.relname in ('customers', 'orders') order by 1

-- @ sizes written for people
select pg_size_pretty(123456789::bigint), pg_size_pretty(10240::bigint), pg_size_pretty(0::bigint)

-- @ rows beside rows
select relname, (select nspname from pg_namespace where oid = relnamespace) nsp from pg_class where (relname, relkind) = ('customers', 'r')

-- @ an expression before a star
select oid::regclass::text as t, * from pg_am order by t desc limit 1

-- @ reserved words as names
select 1 as select, 2 as from, 3 as "order", 4 as user

-- @ keys of an index side by side
select i.indexrelid::regclass, k.key, k.option, k.place from pg_index i, unnest(i.indkey, i.indoption) with ordinality k(key, option, place)
where i.indrelid = 'sales.orders'::regclass order by 1, 4

-- @ names of a constraint's columns
select c.conname, array(select attname from unnest(c.conkey) with ordinality k(number, place) join pg_attribute a on a.attnum = k.number where a.attrelid = c.conrelid order by k.place)
from pg_constraint c where c.conrelid = 'sales.orders'::regclass order by 1

-- @ statistics
select relname, relid = relname::regclass from pg_stat_user_tables where schemaname = 'public' order by 1

-- @ error: no such relation
select * from nowhere

-- @ error: no such relation in a schema
select * from pg_catalog.nowhere

-- @ error: no such column
select nope from pg_class

-- @ error: no such column of a table
select c.nope from pg_class c

-- @ error: no such table in the query
select x.oid from pg_class

-- @ error: ambiguous
select oid from pg_class c, pg_namespace n

-- @ error: no such function
select nope(1, 'x')

-- @ error: no such function for these types
select lower(1)

-- @ error: no such operator
select 1 = 'x'::text

-- @ error: no such operator on oids
select oid = 'x'::text from pg_class

-- @ error: no such type
select 'x'::nope

-- @ error: not a number
select 'x'::int

-- @ error: not an oid
select relname from pg_class where oid = 'x'

-- @ error: a function's name is not a number
select 1 from pg_type where typinput = 'int4in'

-- @ error: no such object
select 'nope'::regclass

-- @ error: no such type by name
select 'nope'::regtype

-- @ error: place not in the list
select 1 order by 2

-- @ error: name twice
select 1 from pg_class c, pg_class c

-- @ error: not a condition
select 1 from pg_class where relname

-- @ error: no group
select relname, count(*) from pg_class

-- @ error: unions that do not match
select 1 union select true

-- @ error: unions of different width
select 1 union select 1, 2

-- @ error: case of different types
select case when true then 1 else true end

-- @ error: division by zero
select 1 / 0

-- @ error: several rows
select (select oid from pg_class)

-- @ error: no such setting
select current_setting('nope')

-- @ error: no such role
select has_table_privilege('nobody', 'pg_class', 'select')

-- @ error: no such privilege
select has_table_privilege('pg_class', 'fly')

-- @ error: cast that there is not
select true::oid

-- @ error: syntax
select 1 from pg_class where order

-- @ error: syntax at the end
select 1 +

-- @ error: star without tables
select *

-- @ error: no such schema in front of a function
select nope.lower('x')

-- @ error: missing from
select pg_class.oid

-- @ error: empty array
select array[]

-- @ differs: what version() says
-- Clients read the number; the rest names what is running.
select version()

-- @ differs: sizes
-- What is stored is asked of storage, and the catalogs alone have none.
select pg_table_size('customers') > 0

-- @ differs: what nobody counts
select relname, n_live_tup from pg_stat_user_tables where schemaname = 'public' order by 1

-- @ differs: schemas of our own
-- mz_catalog and mz_internal are there for Materialize's clients.
select count(*) from pg_namespace

-- @ differs: types of our own
-- uint8 and mz_timestamp are not PostgreSQL's.
select count(*) from pg_type where typnamespace = 11

-- @ differs: toast tables
-- Long values are not stored apart.
select count(*) from pg_class where relkind = 't'

-- @ differs: pages of an index
-- There are no pages.
select relpages from pg_class where relname = 'orders_placed'

-- @ differs: a procedural language
-- There are no stored procedures.
select count(*) from pg_language

-- @ differs: descriptions of the system's own objects
-- They are PostgreSQL's prose.
select obj_description('pg_class'::regclass, 'pg_class') is null, count(*) > 100 from pg_description

-- @ differs: functions
-- Only those that other rows refer to, or that can be called here, are listed.
select count(*) from pg_proc

-- @ differs: a view's definition that is not pretty
-- The catalog keeps one form of it.
select pg_get_viewdef('v_cust'::regclass)

-- @ differs: an expression in an index that is pretty
-- The catalog keeps one form of it.
select pg_get_indexdef('customers_lower'::regclass, 0, true)

-- @ differs: materialized views in information_schema
-- PostgreSQL leaves them out; here they are what users read most.
select table_name from information_schema.tables where table_schema = 'sales' and table_name = 'mv_totals'

-- @ differs: updatable views
-- Views can not be written to.
select is_updatable from information_schema.views where table_name = 'v_cust'

-- @ differs: where a setting comes from
-- There is no configuration file.
select count(*) from pg_settings where source = 'configuration file'

-- @ differs: the lower bound of a vector made an array
-- Only subscripts keep it.
select indkey::int2[] from pg_index where indexrelid = 'sales.orders_placed'::regclass

-- @ powers
select 2^32, (2^32)::bigint, 2::float8 ^ 0.5::float8, power(2::float8, 10::float8), 1 % (2^10)::bigint,
       pow(2::float8, -2), null ^ 2

-- @ error: power of zero
select 0 ^ (-1)

-- @ error: power of a negative number
select power((-8)::float8, 0.5::float8)

-- @ error: power out of range
select 10 ^ 400

-- @ moments as programs show them
select to_char('2024-01-02 03:04:05.678+00'::timestamptz, 'YYYY-MM-DD HH24:MI:SS.US TZ')

-- @ keys of jsonb
select jsonb_build_object('name', 'x', 'id', 1, 'id', 2, 'ü', null, 'b',
                          jsonb_build_array(true, jsonb_build_object('zz', 'é', 'a', 'q"')))

-- @ rows as jsonb
select jsonb_agg(jsonb_build_object('relname', relname, 'kind', relkind) order by relname)
from pg_class where relname in ('pg_class', 'pg_proc')

-- @ settings by the function
select s.name, s.vartype from pg_show_all_settings() s
where s.name in ('DateStyle', 'integer_datetimes') order by 1

-- @ character sets
select * from information_schema.character_sets

-- @ types of arguments
select proname, oidvectortypes(proargtypes) from pg_proc
where proname in ('now', 'abs', 'format_type') order by 1, 2

-- @ encoded bytes
select encode('\x00ff41'::bytea, 'hex'), encode('\x00ff5c41', 'escape'), encode('\x00', 'base64'),
       host(null::inet), pg_blocking_pids(pg_backend_pid())

-- @ error: unknown encoding
select encode('\x00', 'hexagonal')

-- @ properties of an index
select p, pg_index_column_has_property('sales.orders_placed'::regclass, 2, p),
       pg_index_column_has_property('sales.orders_placed'::regclass, 3, p),
       pg_index_column_has_property('sales.orders'::regclass, 1, p),
       pg_index_column_has_property('pg_class_oid_index'::regclass, 1, p)
from unnest(array['ASC', 'desc', 'nulls_first', 'nulls_last', 'orderable', 'distance_orderable',
                  'returnable', 'search_array', 'search_nulls', 'nothing']) p
